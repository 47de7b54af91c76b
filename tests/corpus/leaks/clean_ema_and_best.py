"""Averages and the best weights so far, replaced now and then."""
import copy

import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    opt = torch.optim.AdamW(model.parameters())
    average, best = {k: v.clone() for k, v in model.state_dict().items()}, None
    for step in range(STEPS):
        train_step(model, opt, batch())
        average = {k: average[k] * 0.99 + v * 0.01 for k, v in model.state_dict().items()}
        if step % 3 == 0:
            best = copy.deepcopy(model.state_dict())
        probe.step()
    del average, best
