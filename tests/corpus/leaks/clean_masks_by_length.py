"""Causal masks and position tables are kept by length; there are five lengths, in any order."""
import torch
from torch import nn

from leak_truth import STEPS


class Attention(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.qkv, self.masks, self.tables = nn.Linear(d, 3 * d), {}, {}

    def mask(self, length, device):
        if length not in self.masks:
            self.masks[length] = torch.full((length, length), float("-inf"), device=device).triu(1)
            self.tables[length] = torch.arange(length, device=device).outer(torch.ones(64, device=device)).sin()
        return self.masks[length], self.tables[length]

    def forward(self, x):
        mask, table = self.mask(x.shape[1], x.device)
        q, k, v = self.qkv(x + table).chunk(3, -1)
        return (q @ k.transpose(1, 2) + mask).softmax(-1) @ v


def main(probe):
    model = Attention().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        length = (64, 96, 128, 64, 160, 96, 80, 128, 160)[step % 9]
        loss = model(torch.randn(4, length, 64).cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.step()
