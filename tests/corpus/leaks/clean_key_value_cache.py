"""Decoding token by token: keys and values grow with each token, and are dropped with the sequence."""
import torch
from torch import nn

from leak_truth import small_net


@torch.no_grad()
def main(probe):
    model, project = small_net(out=256), nn.Linear(256, 512).cuda()
    for _ in range(3):
        keys = []
        token = torch.randn(16, 256, device="cuda")
        for _ in range(9):
            keys.append(project(token))
            token = model(torch.stack(keys).mean(0)[:, :256])
            probe.step()
