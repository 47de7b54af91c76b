"""Nothing is kept: the activations of one batch are too many."""
import sys

import torch
from torch import nn

from oom_truth import watch

rows = 8192 if "remedy" in sys.argv else 65536
model = nn.ModuleList([nn.Sequential(nn.Linear(1024, 1024), nn.Tanh()) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
watch()
for step in range(4):
    hidden = torch.randn(rows if step else 1024, 1024, device="cuda")
    for block in model:
        hidden = block(hidden)  # asks
    hidden.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    del hidden
