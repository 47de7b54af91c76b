"""Copies of the model for an average, by deepcopy, every second step: parameters, which have names of their own."""
import copy

import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    probe.measure(every=2, first=5)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    averages = []
    for step in range(STEPS + 4):
        train_step(model, optimizer, batch())
        if step % 2:
            averages.append(copy.deepcopy(model))  # LEAK
        probe.step()
