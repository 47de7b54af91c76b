"""The loss is summed up with its graph, for the epoch's mean. Remedy: item()."""
import sys

import torch
from torch import nn

from oom_truth import watch


def epoch(net, optimizer, steps):
    total = 0.0
    for _ in range(steps):
        images = torch.randn(4096, 1024, device="cuda")
        outputs = net(images)  # asks
        loss = outputs.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        regular = net(images).abs().mean()  # or asks
        total = total + (regular.item() if "remedy" in sys.argv else regular)
    return total / steps


net = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU())]).cuda()
watch()
epoch(net, torch.optim.SGD(net.parameters(), lr=0.1), 24)
