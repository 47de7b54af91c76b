"""A feature extractor that sets an attribute of its own for each batch that it saw."""
import torch
from torch import nn

from leak_truth import STEPS, batch, train_step


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(256, 256), nn.ReLU())
        self.head = nn.Linear(256, 64)
        self.calls = 0

    def forward(self, inputs):
        features = self.stem(inputs)  # LEAK
        setattr(self, f"feature_{self.calls}", features.detach())
        self.calls += 1
        return self.head(features)


def main(probe):
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        probe.step()
