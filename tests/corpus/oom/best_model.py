"""A search over widths: the best model so far stays, with its gradients and its optimizer, while the next one is built.
Remedy: keep its weights on the CPU."""
import sys

import torch
from torch import nn

from oom_truth import watch


class Trial:
    def __init__(self, width):
        self.net = nn.Sequential(nn.Linear(2048, width), nn.ReLU(), nn.Linear(width, 2048)).cuda()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)

    def train(self):
        for _ in range(3):
            self.optimizer.zero_grad()
            self.net(torch.randn(64, 2048, device="cuda")).square().mean().backward()
            self.optimizer.step()  # asks
        return 0.0


watch()
best, best_loss = None, float("inf")
for width in (16384, 20480):
    trial = Trial(width)
    loss = trial.train()
    if loss < best_loss:
        best, best_loss = trial, loss
    if "remedy" in sys.argv:
        best = [value.cpu() for value in trial.net.state_dict().values()]
        del trial
