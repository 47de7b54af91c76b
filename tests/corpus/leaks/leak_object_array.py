"""Tensors as elements of an array of numpy, which the collector knows nothing of."""
import numpy
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    table = numpy.empty(100, dtype=object)
    for step in range(STEPS):
        inputs = batch()  # LEAK
        train_step(model, optimizer, inputs)
        table[step] = inputs
        probe.step()
