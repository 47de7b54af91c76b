"""Trials with backward(create_graph=True): each leaves its model, whose parameters and gradients hold each other."""
import gc

import torch

from leak_truth import STEPS, batch, small_net


def trial(probe):
    model = small_net()  # LEAK
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(batch()).square().mean()
        loss.backward(create_graph=True)  # LEAK
        optimizer.step()
        probe.step()


def main(probe):
    probe.measure(every=2, first=5)
    for _ in range(STEPS):
        trial(probe)
        gc.collect()
