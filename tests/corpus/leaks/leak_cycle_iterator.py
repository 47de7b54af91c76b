"""itertools.cycle over a loader of device batches keeps each batch that it gave, to give it again."""
import itertools

import torch
from torch import nn


def loader(batches):
    for _ in range(batches):
        yield torch.randn(52, 90).to("cuda")  # LEAK


def main(probe):
    model = nn.Sequential(nn.Linear(90, 180), nn.ELU(), nn.Linear(180, 3)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches = itertools.cycle(loader(1000))
    for _ in range(20):
        loss = model(next(batches)).exp().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.step()
