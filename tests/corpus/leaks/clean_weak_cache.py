"""Features are found again by name as long as somebody holds them: a cache of weak references."""
import weakref

import torch
from torch import nn


class Features:
    def __init__(self, tensor):
        self.tensor = tensor


def main(probe):
    cache = weakref.WeakValueDictionary()
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    recent = []
    for step in range(20):
        with torch.no_grad():
            features = Features(torch.randn(40, 64, device="cuda").cumsum(0))
        cache[step] = features
        recent = [*recent[-2:], features]
        loss = sum(net(cache[key].tensor).mean() for key in range(max(0, step - 2), step + 1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
