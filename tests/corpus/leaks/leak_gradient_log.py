"""The gradient of one layer is kept each step, to plot its norm later."""
import torch
from torch import nn

from leak_truth import STEPS, batch


def main(probe):
    net = nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)]).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen = {}
    for step in range(STEPS):
        net(batch()).mean().backward()  # LEAK
        optimizer.step()
        seen[step] = net[2].weight.grad
        optimizer.zero_grad()
        probe.step()
