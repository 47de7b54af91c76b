"""Activation checkpointing: forward again inside backward."""
import torch
from torch.utils.checkpoint import checkpoint

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net(depth=4)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        loss = checkpoint(model, batch(), use_reentrant=False).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
