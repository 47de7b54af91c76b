"""Nothing is wrong but the size: activations of one step fill the card. Remedy: a quarter of the rows, four times."""
import sys

import torch
from torch import nn

from oom_truth import watch

parts = 4 if "remedy" in sys.argv else 1
net = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))]).cuda()
optimizer = torch.optim.AdamW(net.parameters())
watch()
for rows in (2048, 2048, 20480):
    for _ in range(parts):
        net(torch.randn(rows // parts, 512, device="cuda")).square().mean().backward()  # asks
    optimizer.step()
    optimizer.zero_grad()
