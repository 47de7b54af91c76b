"""A pool of eight samples: filled, then a random one is replaced."""
import random

import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    choose = random.Random(3)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    pool = []
    for _ in range(STEPS + 8):
        inputs = batch()
        train_step(model, optimizer, inputs)
        if len(pool) < 8:
            pool.append(inputs.tanh())
        else:
            pool[choose.randrange(8)] = inputs.tanh()
        probe.step()
