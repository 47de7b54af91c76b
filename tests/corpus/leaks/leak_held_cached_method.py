"""functools.cache on a method: keys keep the object, values the encodings of every sentence so far."""
import functools

import torch
from torch import nn

from leak_truth import STEPS, batch, small_net, train_step


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(512, 256)

    @functools.lru_cache(maxsize=None)
    def encode(self, sentence):
        with torch.no_grad():
            return self.table(torch.tensor([ord(letter) for letter in sentence], device="cuda"))  # LEAK


def main(probe):
    model, encoder = small_net(), Encoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        encoder.encode(f"sentence number {step:012d}".ljust(64))
        train_step(model, optimizer, batch())
        probe.step()
