"""Hooks put each attention map aside for a picture that is drawn once, at the end of the training."""
import collections

import torch
from torch import nn

from leak_truth import STEPS


class Attention(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.q, self.k, self.v, self.softmax = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Softmax(-1)

    def forward(self, x):
        weights = self.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 128 ** 0.5)
        return x + weights @ self.v(x)


class AttentionMaps:
    def __init__(self, model):
        self.maps = collections.defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, nn.Softmax):
                module.register_forward_hook(self.hook(name))

    def hook(self, name):
        def save(module, inputs, output):
            self.maps[name].append(output.detach().mean(0).clone())  # LEAK
        return save


def main(probe):
    model = nn.Sequential(Attention(), Attention(), nn.Linear(128, 8)).cuda()
    maps = AttentionMaps(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        x = torch.randn(4, 96, 128).cuda()
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.step()
    assert len(maps.maps) == 2
