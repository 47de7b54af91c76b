"""The batch grows by a fixed number of rows every other step, till the end of the run."""
import torch
from torch import nn


def main(probe):
    net = nn.Sequential(nn.Linear(88, 176), nn.ReLU(), nn.Linear(176, 1)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(22):
        inputs = torch.randn(16 + 8 * (step // 2), 88, device="cuda")
        loss = net(inputs).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
