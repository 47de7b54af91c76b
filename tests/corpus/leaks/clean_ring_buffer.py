"""A memory for replay that is full after ten steps, in a list written in a ring."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class Ring:
    def __init__(self, size):
        self.items, self.at, self.size = [], 0, size

    def add(self, x):
        if len(self.items) < self.size:
            self.items.append(None)
        self.items[self.at] = x
        self.at = (self.at + 1) % self.size


def main(probe):
    ring, model = Ring(8), small_net()
    opt = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        ring.add(batch())
        train_step(model, opt, ring.items[0])
        probe.step()
