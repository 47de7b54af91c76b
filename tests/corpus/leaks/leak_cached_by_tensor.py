"""functools.cache over a function of a tensor: tensors hash by identity, so each call is a miss that stays."""
import functools

import torch
from torch import nn


@functools.cache
def whiten(batch):
    centred = batch - batch.mean(0)
    return centred / centred.std(0)  # LEAK


def main(probe):
    model = nn.Sequential(nn.Linear(110, 55), nn.Softplus(), nn.Linear(55, 5)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(20):
        batch = torch.rand(42, 110, device="cuda")  # LEAK
        model(whiten(batch)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
