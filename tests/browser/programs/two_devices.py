"""A model whose halves are on two devices, and page-locked memory."""
import torch
from torch import nn

first = nn.Sequential(nn.Linear(256, 512), nn.ReLU()).to("cuda:0")
second = nn.Linear(512, 64).to("cuda:1")
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
for _ in range(8):
    batch = torch.randn(64, 256, device="cuda:0")
    second(first(batch).to("cuda:1")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
pinned = torch.empty(1 << 20, pin_memory=True)
