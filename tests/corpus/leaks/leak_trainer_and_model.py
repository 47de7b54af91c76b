"""Each fold has a trainer and a model that know each other; nothing ever collects them."""
import gc

import torch

from leak_truth import STEPS, batch, small_net


class Trainer:
    def __init__(self, model):
        self.model = model
        model.trainer = self
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self):
        self.model(batch()).mean().backward()
        self.opt.step()
        self.opt.zero_grad()


class Wrapped:
    def __init__(self):
        self.net = small_net()  # LEAK

    def parameters(self):
        return self.net.parameters()

    def __call__(self, x):
        return self.net(x)


def main(probe):
    gc.disable()
    for _ in range(STEPS):
        Trainer(Wrapped()).fit()
        probe.step()
