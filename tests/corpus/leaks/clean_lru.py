"""A service with an LRU cache of prompts' encodings: it fills, and then each new one takes the place of another."""
import functools

import torch

from leak_truth import STEPS, small_net


def main(probe):
    net = small_net(out=256)

    @functools.lru_cache(maxsize=5)
    def encode(prompt):
        with torch.no_grad():
            return net(torch.full((16, 256), float(len(prompt)), device="cuda"))

    for number in range(STEPS):
        encode(f"prompt {number * 7 % 11}")
        with torch.no_grad():
            net(encode("system"))
        probe.step()
