"""Positions by sequence length: made when a length first shows, and kept; there are eight lengths."""
import torch

from leak_truth import STEPS, small_net

LENGTHS = (4, 8, 12, 4, 16, 20, 8, 24, 28, 12, 32, 4, 8, 32, 28, 16, 20, 24, 4, 12, 8, 32, 16, 28)


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    positions = {}
    for step in range(STEPS + 6):
        length = LENGTHS[step]
        if length not in positions:
            positions[length] = torch.randn(length, 256).cuda()
        loss = model(torch.randn(length, 256).cuda() + positions[length]).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
