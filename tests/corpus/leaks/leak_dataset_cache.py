"""A dataset that caches its crops on the GPU by a key that never comes again: it has the random offset in it."""
import random

import torch
from torch.utils.data import DataLoader, Dataset

from leak_truth import STEPS, small_net, train_step


class Crops(Dataset):
    def __init__(self):
        self.image = torch.randn(4096)
        self.cache = {}

    def __len__(self):
        return 16

    def __getitem__(self, index):
        key = index, random.random()
        if key not in self.cache:
            start = int(key[1] * 3000)
            self.cache[key] = self.image[start:start + 256].to("cuda")  # LEAK
        return self.cache[key]


def main(probe):
    loader = DataLoader(Crops(), batch_size=16, num_workers=0)
    net = small_net()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(STEPS):
        for crops in loader:
            train_step(net, optimizer, crops)
        probe.step()
