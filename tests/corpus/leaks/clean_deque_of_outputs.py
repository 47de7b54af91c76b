"""The last five outputs, for a consistency loss."""
import collections

import torch
from torch import nn


def main(probe):
    net = nn.Sequential(nn.Linear(70, 140), nn.Hardswish(), nn.Linear(140, 70)).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    past = collections.deque(maxlen=5)
    for _ in range(22):
        outputs = net(torch.randn(33, 70, device="cuda"))
        loss = outputs.square().mean()
        for old in past:
            loss = loss + (outputs - old).abs().mean()
        past.append(outputs.detach())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
