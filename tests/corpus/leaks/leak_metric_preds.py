"""A metric gathers scores and labels until it is computed; nobody resets it."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net, train_step


class AreaUnderCurve(nn.Module):
    def __init__(self):
        super().__init__()
        self.preds, self.computed = [], None

    @torch.no_grad()
    def update(self, scores):
        self.preds.append(scores.softmax(-1))  # LEAK

    def compute(self):
        self.computed = torch.cat(self.preds[-2:]).mean().item()
        return self.computed


def main(probe):
    model, metric = small_net(), AreaUnderCurve()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        x = batch()
        train_step(model, optimizer, x)
        with torch.no_grad():
            metric.update(model(x))
        metric.compute()
        probe.step()
