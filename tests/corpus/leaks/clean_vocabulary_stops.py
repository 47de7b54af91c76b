"""Words get a vector each when they are first met; after eleven steps no word is new."""
import torch

from leak_truth import STEPS, small_net, train_step

WORDS = 44


class Vectors:
    def __init__(self):
        self.table = {}

    def __getitem__(self, word):
        if word not in self.table:
            self.table[word] = torch.randn(256).cuda()
        return self.table[word]


def main(probe):
    model, vectors = small_net(), Vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        words = [f"w{(4 * step + i) % WORDS}" for i in range(16)]
        train_step(model, optimizer, torch.stack([vectors[word] for word in words]))
        probe.step()
