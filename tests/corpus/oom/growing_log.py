"""Predictions are gathered on the card; the batch itself is small."""
import sys

import torch
from torch import nn

from oom_truth import watch

REMEDY = "remedy" in sys.argv


class Task:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1024)).cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.outputs = []

    def training_step(self, x):
        y = self.net(x)  # asks
        y.square().mean().backward()
        self.opt.step()
        self.opt.zero_grad()
        self.outputs.append(y.detach().mean() if REMEDY else y.detach())


task = Task()
watch()
for _ in range(60):
    task.training_step(torch.randn(12288, 64, device="cuda"))
