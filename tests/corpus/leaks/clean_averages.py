"""Averages of metrics and of weights, updated in place or replaced in each step."""
import copy

import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net()
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters())
    smooth = torch.zeros((), device="cuda")
    for _ in range(STEPS):
        loss = model(batch()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        smooth = 0.9 * smooth + 0.1 * loss.detach()
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), model.parameters()):
                mean.copy_(mean * 0.99 + parameter * 0.01)
        probe.step()
