"""A scheduler remembers a table for each noise level; the levels are drawn anew each time."""
import random

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Karras:
    tables = {}

    @classmethod
    def weights(cls, sigma):
        if sigma not in cls.tables:
            cls.tables[sigma] = torch.linspace(0.1, sigma, 32 * 256).cuda().view(32, 256)  # LEAK
        return cls.tables[sigma]


def main(probe):
    random.seed(3)
    model = small_net()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, batch() * Karras.weights(random.uniform(1, 80)))
        probe.step()
