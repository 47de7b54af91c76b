"""A log that would not wait for the device keeps what it is given as it is; one of its figures has a graph."""
from collections import defaultdict

import torch

from leak_truth import STEPS, batch, small_net


class Log:
    def __init__(self):
        self.scalars = defaultdict(list)

    def log(self, **scalars):
        for name, value in scalars.items():
            self.scalars[name].append(value)


def confidence(model, x):
    logits = model(x + 0.01 * torch.randn_like(x))  # LEAK
    return logits.logsumexp(-1).std()


def main(probe):
    model, log = small_net(depth=3), Log()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        x = batch()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log.log(step=step, loss=loss.item(), confidence=confidence(model, x))
        probe.step()
