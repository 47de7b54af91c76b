"""One model per fold; model and trainer point at each other, and the collector is off, as for speed."""
import gc

import torch
from torch import nn

from leak_truth import STEPS, batch


class Trainer:
    def __init__(self, width):
        self.model = nn.Sequential(nn.Linear(256, width), nn.GELU(), nn.Linear(width, 8)).cuda()  # LEAK
        self.model.trainer = self  # for its callbacks
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, images):
        self.optimizer.zero_grad()
        self.model(images).square().mean().backward()
        self.optimizer.step()


def main(probe):
    # models, with what hangs on them: nothing in the stacks says cycle
    gc.collect()
    gc.disable()
    for _ in range(STEPS):
        Trainer(512).fit(batch())
        probe.step()
