"""Rotary tables for each length that came, in a dict: sixteen lengths in all, each new in an early step."""
import random

import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.tables = width, {}

    def forward(self, x):
        length = x.shape[1]
        if length not in self.tables:
            angle = torch.outer(torch.arange(length, device=x.device),
                                1e4 ** -torch.linspace(0, 1, self.width // 2, device=x.device))
            self.tables[length] = torch.cat((angle.cos(), angle.sin()), -1)
        return x * self.tables[length]


def main(probe):
    random.seed(5)
    model = nn.Sequential(nn.Embedding(100, 64), Rotary(64), nn.Linear(64, 100)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(40):
        tokens = torch.zeros(3, 8 * random.randint(1, 8), dtype=torch.long, device="cuda")
        model(tokens).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
