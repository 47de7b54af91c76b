"""Detached features by step, in a dict on the model."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = small_net(), nn.Linear(64, 8)
        self.seen = {}

    def forward(self, inputs):
        features = self.trunk(inputs).tanh()  # LEAK
        self.seen[len(self.seen)] = features.detach()
        return self.head(features)


def main(probe):
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        model(batch()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
