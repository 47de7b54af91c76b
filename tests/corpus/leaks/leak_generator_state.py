"""Generators that are begun and never finished hold their locals."""
import torch

from leak_truth import STEPS, batch, small_net, train_step

OPEN = []


def augment(x):
    noisy = x + torch.randn_like(x)  # LEAK
    yield noisy
    yield noisy.flip(0)


def main(probe):
    model = small_net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        views = augment(batch())  # LEAK
        train_step(model, opt, next(views))
        OPEN.append(views)
        probe.step()
