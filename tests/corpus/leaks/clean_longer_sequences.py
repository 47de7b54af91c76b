"""Longer and longer sequences, and a table of positions that follows; it ends."""
import torch
from torch import nn

from leak_truth import STEPS


def main(probe):
    rnn, head = nn.Linear(128, 128).cuda(), nn.Linear(128, 4).cuda()
    opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()])
    for step in range(STEPS):
        x = torch.randn(16, 8 * min(step + 1, 12), 128).cuda()
        head(rnn(x).tanh()).mean().backward()
        opt.step()
        opt.zero_grad()
        probe.step()
