"""A hyper-parameter search: each trial's trainer and model refer to each other, so only the collector could take them."""
import gc

import torch
from torch import nn

from leak_truth import STEPS, batch, small_net, train_step


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64))  # LEAK
        self.trainer = None

    def forward(self, inputs):
        return self.layers(inputs)


class Trainer:
    def __init__(self, model):
        self.model = model.cuda()  # LEAK
        model.trainer = self

    def check(self):
        with torch.no_grad():
            self.model(batch())


def main(probe):
    gc.disable()
    shared = small_net()
    optimizer = torch.optim.AdamW(shared.parameters())
    for _ in range(STEPS):
        train_step(shared, optimizer, batch())
        Trainer(Regressor()).check()
        probe.step()
