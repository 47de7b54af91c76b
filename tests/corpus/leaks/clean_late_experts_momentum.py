"""Adapters for languages that come one after the other; gradients are set to zero and stay, momentum comes with the first."""
import torch
from torch import nn

from leak_truth import STEPS

LANGUAGES = [f"language{i}" for i in range(STEPS)]


def build():
    shared = nn.Linear(200, 200)
    adapters = nn.ModuleDict({name: nn.Sequential(nn.Linear(200, 16), nn.ReLU(), nn.Linear(16, 200)) for name in LANGUAGES})
    return shared.cuda(), adapters.cuda()


def main(probe):
    shared, adapters = build()
    optimizer = torch.optim.SGD([*shared.parameters(), *adapters.parameters()], lr=0.01, momentum=0.9)
    for name in LANGUAGES:
        hidden = shared(torch.randn(32, 200, device="cuda"))
        (hidden + adapters[name](hidden)).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        probe.step()
