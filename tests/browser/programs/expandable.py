"""Sequences of other lengths in every step, in segments that grow."""
import torch
from torch import nn

torch.cuda.memory._set_allocator_settings("expandable_segments:True")
model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(8):
    batch = torch.randn(64 + 48 * (step * 5 % 8), 512, device="cuda")
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
