"""An averaged copy of the weights for each epoch, kept in a dataclass for a comparison that nobody makes."""
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Averages:
    decay: float = 0.99
    shadow: dict = field(default_factory=dict)
    by_epoch: dict = field(default_factory=dict)

    @torch.no_grad()
    def update(self, model):
        for name, value in model.named_parameters():
            if name in self.shadow:
                self.shadow[name].lerp_(value, 1 - self.decay)
            else:
                self.shadow[name] = value.clone()

    def end_epoch(self, epoch):
        self.by_epoch[epoch] = {name: value.clone() for name, value in self.shadow.items()}  # LEAK


def main(probe):
    probe.measure(every=2)
    model = nn.Sequential(nn.Embedding(500, 64), nn.Flatten(), nn.Linear(64 * 8, 128), nn.Tanh(), nn.Linear(128, 500)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    averages = Averages()
    for epoch in range(10):
        for _ in range(2):
            tokens = torch.zeros(24, 8, dtype=torch.long, device="cuda")
            nn.functional.cross_entropy(model(tokens), tokens[:, 0]).backward()
            optimizer.step()
            optimizer.zero_grad()
            averages.update(model)
            if _ == 1:
                averages.end_epoch(epoch)
            probe.step()
