"""Trains a small model, as a seed says, and tells what PyTorch counted: train.py SEED TRUTH [leak]"""
import json
import random
import sys

import torch
from torch import nn

choose = random.Random(int(sys.argv[1]))
width, depth, steps = choose.randrange(64, 512, 8), choose.randint(1, 4), 12
kept = []


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


words = choose.random() < 0.5
model = (Words() if words else Stack()).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(steps):
    x = torch.zeros(64, dtype=torch.long, device="cuda") if words else torch.randn(64, width, device="cuda")
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if "leak" in sys.argv:
        kept.append(torch.empty(1 << 20, device="cuda"))
with open(sys.argv[2], "w") as file:
    json.dump({"model": type(model).__name__, "peak_block_bytes": torch.cuda.max_memory_allocated(),
               "reserved_peak_bytes": torch.cuda.max_memory_reserved(),
               "parameter_bytes": sum(-(-p.numel() * p.element_size() // 512) * 512 for p in model.parameters()),
               "leak_bytes_per_step": 4 << 20 if kept else 0}, file)
