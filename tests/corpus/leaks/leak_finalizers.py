"""A callback for the end of the run is registered for each batch, with the batch as its argument."""
import weakref

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Run:
    def __init__(self):
        self.model = small_net()
        self.optimizer = torch.optim.RMSprop(self.model.parameters())

    def fit(self, x):
        weakref.finalize(self, write_sample, x, "sample.png").atexit = False
        return train_step(self.model, self.optimizer, x)


def write_sample(x, name):
    return name, x.shape


def main(probe):
    run = Run()
    for _ in range(STEPS):
        x = torch.randn(48, 256).cuda()  # LEAK
        run.fit(x)
        del x
        probe.step()
    run.fit(batch())
