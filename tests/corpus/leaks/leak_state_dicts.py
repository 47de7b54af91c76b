"""Copies of weights and optimizer state every third step, by deepcopy, which empties a tensor of its own beside each."""
import copy

import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    probe.measure(every=3, first=5)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    checkpoints = {}
    for step in range(STEPS + 6):
        train_step(model, optimizer, batch())
        if step % 3 == 2:
            checkpoints[step] = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})  # LEAK
        probe.step()
