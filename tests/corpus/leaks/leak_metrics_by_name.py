"""A history by name, as every tutorial has it: one of its lists gets the loss with its graph."""
from collections import defaultdict

import torch
from torch import nn

from leak_truth import STEPS


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
        self.head = nn.Linear(256, 10)

    def forward(self, x, y):
        logits = self.head(self.body(x))
        return nn.functional.cross_entropy(logits, y), logits


def main(probe):
    net = Net().cuda()
    opt = torch.optim.Adam(net.parameters())
    history = defaultdict(list)
    for _ in range(STEPS):
        x, y = torch.randn(64, 128, device="cuda"), torch.zeros(64, dtype=torch.long, device="cuda")
        loss, logits = net(x, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        history["loss"].append(loss.item())
        history["shape"].append(logits.shape)
        history["regularised"].append(net(x, y)[0] + 1e-4 * net.head.weight.square().sum())  # LEAK
        probe.step()


