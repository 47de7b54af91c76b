"""Predictions and targets are gathered for a metric which is computed and reset every ten steps; the run ends within a round."""
import torch
from torch import nn


class Recall:
    def __init__(self):
        self.reset()

    def reset(self):
        self.preds, self.target = [], []

    def update(self, preds, target):
        self.preds.append(preds)
        self.target.append(target)

    def compute(self):
        return float((torch.cat(self.preds) * torch.cat(self.target)).mean())


def main(probe):
    model = nn.Sequential(nn.Linear(45, 90), nn.ReLU(), nn.Linear(90, 45)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    recall = Recall()
    for step in range(27):
        x = torch.randn(30, 45, device="cuda")
        y = model(x)
        (y - x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        recall.update(y.detach().sigmoid(), x.round())
        if step % 10 == 9:
            recall.compute()
            recall.reset()
        probe.step()
