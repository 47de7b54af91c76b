"""A validation loop that forgets no_grad and keeps what the net says of each batch. Remedy: no_grad."""
import sys

import torch
from torch import nn

from oom_truth import watch

net = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.GELU())]).cuda()
optimizer = torch.optim.AdamW(net.parameters())
watch()


def train(batches):
    for _ in range(batches):
        optimizer.zero_grad()
        net(torch.randn(1024, 1024, device="cuda")).square().mean().backward()
        optimizer.step()


def validate(batches):
    said = []
    for _ in range(batches):
        images = torch.randn(4096, 1024, device="cuda")
        said.append(net(images)[:, :10].softmax(-1))  # asks
    return torch.cat(said)


train(8)
if "remedy" in sys.argv:
    with torch.no_grad():
        validate(20)
else:
    validate(20)
