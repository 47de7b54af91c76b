"""A cache of a function that is called with tensors: no two are equal, so each batch and its result stay."""
import functools

import torch

from leak_truth import STEPS, batch, small_net, train_step


@functools.lru_cache(maxsize=None)
def normalized(inputs):
    return inputs / 7


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, normalized(batch()))  # LEAK
        probe.step()
