"""A run that resumes: the checkpoint is read to the GPU, copied into model and optimizer, and kept in a variable.
Remedy: map_location="cpu"."""
import os
import sys
import tempfile

import torch
from torch import nn

from oom_truth import watch


def build():
    net = nn.Sequential(nn.Linear(3072, 3072), nn.ReLU(), nn.Linear(3072, 3072)).cuda()
    return net, torch.optim.Adam(net.parameters())


def train(net, optimizer, rows, steps=2):
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        net(torch.randn(rows, 3072, device="cuda")).square().mean().backward()  # asks
        optimizer.step()


with tempfile.NamedTemporaryFile(delete=False) as file:
    net, optimizer = build()
    train(net, optimizer, 64)
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "average": [p * 1 for p in net.parameters()]}, file)
del net, optimizer
torch.cuda.empty_cache()
watch()
checkpoint = torch.load(file.name, map_location="cpu" if "remedy" in sys.argv else "cuda")
os.unlink(file.name)
net, optimizer = build()
net.load_state_dict(checkpoint["net"])
optimizer.load_state_dict(checkpoint["optimizer"])
train(net, optimizer, 17 << 10)
