"""After each epoch all images are embedded, by key; the second time a dict has them all. Remedy: on the CPU."""
import sys

import torch
from torch import nn

from oom_truth import watch


@torch.inference_mode()
def embed(net, count):
    table = {}
    for number in range(count):
        table[f"image {number}"] = net(torch.randn(8192, 1024, device="cuda"))  # asks
        if "remedy" in sys.argv:
            table[f"image {number}"] = table[f"image {number}"].to("cpu")
    return len(table)


net = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(net.parameters())
watch()
for epoch in range(2):
    for _ in range(4):
        net(torch.randn(128, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    embed(net, 10 if epoch == 0 else 90)
