"""A recurrent state handed from step to step, detached."""
import torch
from torch import nn

from leak_truth import STEPS, batch


def main(probe):
    cell = nn.GRUCell(256, 256).cuda()
    optimizer = torch.optim.AdamW(cell.parameters())
    state = torch.zeros(32, 256, device="cuda")
    for _ in range(STEPS):
        state = cell(batch(), state.detach())
        state.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
