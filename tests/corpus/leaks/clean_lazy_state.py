"""A sparse model: each step trains another table, whose Adam state (two tensors and a step) is made when it first has a
gradient; to the end of the run there are tables that had none."""
import torch
from torch import nn

from leak_truth import STEPS


def main(probe):
    tables = [nn.Parameter(torch.randn(300, 64, device="cuda")) for _ in range(3 * STEPS)]
    head = nn.Linear(64, 1).cuda()
    optimizer = torch.optim.Adam([{"params": tables}, {"params": head.parameters(), "lr": 1e-4}], foreach=False)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        rows = torch.stack([tables[2 * step], tables[2 * step + 1]]).mean(0)
        head(rows).square().sum().backward()
        optimizer.step()
        probe.step()
