"""Every second step another layer is thawed from the top: its gradients and Adam's state come then, once."""
import torch
from torch import nn


def main(probe):
    layers = nn.ModuleList(nn.Linear(80, 80) for _ in range(9)).cuda()
    head = nn.Linear(80, 4).cuda()
    layers.requires_grad_(False)
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()])
    for step in range(22):
        if step % 2 == 0 and step // 2 < len(layers):
            layers[-1 - step // 2].requires_grad_(True)
        x = torch.randn(20, 80, device="cuda")
        for layer in layers:
            x = layer(x).relu()
        head(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
