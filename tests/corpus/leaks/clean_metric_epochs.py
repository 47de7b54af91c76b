"""A metric gathers scores for six steps, is computed, and begins anew."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class Recall:
    def __init__(self):
        self.reset()

    def reset(self):
        self.scores = []

    def compute(self):
        value = torch.cat(self.scores).mean().item()
        self.reset()
        return value


def main(probe):
    model, metric = small_net(), Recall()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        x = batch()
        train_step(model, optimizer, x)
        with torch.no_grad():
            metric.scores.append(model(x).sigmoid())
        if step % 6 == 5:
            metric.compute()
        probe.step()
