"""functools.lru_cache of embeddings that is bounded, met by few words."""
import functools

import torch

from leak_truth import STEPS, small_net


def main(probe):
    model = small_net().eval()

    @functools.lru_cache(maxsize=5)
    def embed(word):
        with torch.no_grad():
            return model(torch.full((32, 256), float(word)).cuda())

    for step in range(STEPS):
        for word in (step % 4, step % 7, 1):
            embed(word)
        probe.step()
