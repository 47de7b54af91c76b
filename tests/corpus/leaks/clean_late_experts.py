"""A mixture of experts whose router turns to a new one in each step: gradients and Adam's state come late, once for each."""
import torch
from torch import nn

from leak_truth import STEPS


class Mixture(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(128, 128) for _ in range(experts))
        self.head = nn.Linear(128, 4)

    def forward(self, x, chosen):
        return self.head(self.experts[chosen](x).relu())


def main(probe):
    net = Mixture(STEPS).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(STEPS):
        net(torch.randn(64, 128, device="cuda"), step).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
