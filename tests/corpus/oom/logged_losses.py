"""A history of losses keeps each one's graph, with all that a second term saved."""
import sys

import torch
from torch import nn

from oom_truth import watch

REMEDY = "remedy" in sys.argv


class Experiment:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(256, 2048), nn.GELU(), nn.Linear(2048, 256)).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.history = {"loss": [], "regulariser": []}

    def regulariser(self, x):
        return self.net(x + 0.1).abs().mean()

    def step(self, x):
        loss = (self.net(x) - x).square().mean()
        loss.backward()  # asks
        self.optimizer.step()
        self.optimizer.zero_grad()
        regulariser = self.regulariser(x)
        self.history["loss"].append(loss.item())
        self.history["regulariser"].append(regulariser.item() if REMEDY else regulariser)


experiment = Experiment()
watch()
for _ in range(60):
    experiment.step(torch.randn(4096, 256, device="cuda"))
