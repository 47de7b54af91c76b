"""Numbers are to be logged when the device has finished: functions wait in a list for a flush that never comes."""
import functools

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Logger:
    def __init__(self, flush_every=10_000):
        self.flush_every, self.waiting, self.written = flush_every, [], {}

    def defer(self, compute):
        self.waiting.append(compute)
        if len(self.waiting) >= self.flush_every:
            for compute in self.waiting:
                compute()
            self.waiting.clear()

    def histogram(self, name, values):
        self.written[name] = values.float().histc(10).tolist()


def main(probe):
    model, logger = small_net(), Logger()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        x = batch(rows=64)
        train_step(model, optimizer, x)
        with torch.no_grad():
            activations = model[:2](x)  # LEAK
        logger.defer(functools.partial(logger.histogram, f"activations/{step}", activations))
        del activations
        probe.step()
