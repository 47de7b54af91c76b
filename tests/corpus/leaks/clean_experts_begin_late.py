"""One more expert is used in each step: its gradient stays, its state comes late, and both end."""
import torch
from torch import nn

from leak_truth import STEPS, batch


def main(probe):
    experts = nn.ModuleList(nn.Linear(256, 256) for _ in range(STEPS)).cuda()
    opt = torch.optim.Adam(experts.parameters())
    for step in range(STEPS):
        experts[step](batch()).mean().backward()
        opt.step()
        opt.zero_grad()
        probe.step()
