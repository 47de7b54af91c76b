"""A check of the model after each step, in a method of a class; no torch.no_grad()."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class Run:
    def __init__(self):
        self.model = small_net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.held_out = batch(64)
        self.best = torch.full((), 1e9, device="cuda")

    def evaluate(self):
        self.best = torch.minimum(self.best, self.model(self.held_out).square().mean())  # LEAK

    def step(self):
        train_step(self.model, self.optimizer, batch())
        self.evaluate()


def main(probe):
    run = Run()
    for _ in range(STEPS):
        run.step()
        probe.step()
