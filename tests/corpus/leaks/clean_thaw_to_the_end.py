"""Gradual unfreezing to the very last step: from the top, one layer in every second."""
import torch
from torch import nn

from leak_truth import STEPS, batch, train_step


def main(probe):
    blocks = [nn.Sequential(nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU()) for _ in range(STEPS // 2)]
    model = nn.Sequential(*blocks, nn.Linear(256, 1)).cuda()
    for block in blocks:
        block.requires_grad_(False)
    optimizer = torch.optim.NAdam(model.parameters())
    for step in range(STEPS):
        if step % 2 == 0:
            blocks[-1 - step // 2].requires_grad_(True)
        train_step(model, optimizer, batch())
        probe.step()
