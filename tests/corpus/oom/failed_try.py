"""Half the batch would fit, but the exception of the first try is alive while the second runs: its traceback holds that
try's frames. Remedy: try again after the except block has ended."""
import sys

import torch
from torch import nn

from oom_truth import watch

model = nn.Sequential(*[layer for _ in range(5) for layer in (nn.Linear(1024, 1024), nn.Tanh())]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
watch()


def step(rows):
    images = torch.randn(rows, 1024, device="cuda")
    model(images).mean().backward()  # asks
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.empty_cache()


for rows in (1 << 12, 1 << 12, 1 << 16):
    failed = False
    try:
        step(rows)
    except torch.OutOfMemoryError:
        failed = True
        if "remedy" not in sys.argv:
            torch.cuda.empty_cache()
            step(rows // 2)
    if failed:
        step(rows // 2)
