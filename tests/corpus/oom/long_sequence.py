"""Attention written out: one long document, and its scores are a square of its length for each head."""
import sys

import torch
from torch import nn

from oom_truth import watch


class Attention(nn.Module):
    def __init__(self, d=256, heads=8):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)).softmax(-1)  # asks
        return self.out((scores @ v).transpose(1, 2).flatten(2))


layers = nn.ModuleList([Attention() for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(layers.parameters())
watch()
for length in (512, 768, 640, 1024 if "remedy" in sys.argv else 4096):
    x = torch.randn(2, length, 256, device="cuda")
    for layer in layers:
        x = x + layer(x)
    x.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    del x
