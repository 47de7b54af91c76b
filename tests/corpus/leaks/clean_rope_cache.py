"""A table of positions that is made anew, longer, when a longer sequence shows."""
import torch
from torch import nn

from leak_truth import small_net

LENGTHS = (4, 6, 8, 7, 12, 16, 3, 20, 24, 18, 28, 32, 12, 40, 36, 20, 38, 12, 30, 40, 22, 31, 7, 28)


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.zeros(0, 256, device="cuda")

    def forward(self, inputs):
        if len(inputs) > len(self.table):
            self.table = torch.cat([self.table, torch.ones(len(inputs) - len(self.table), 256, device="cuda")])
        return inputs + self.table[:len(inputs)]


def main(probe):
    positions, model = Positions(), small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for length in LENGTHS:
        model(positions(torch.randn(length, 256).cuda())).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
