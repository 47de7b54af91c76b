"""A log as a linked list, of records with slots."""
import torch

from leak_truth import STEPS, small_net, train_step


class Record:
    __slots__ = ("inputs", "loss", "previous")

    def __init__(self, inputs, loss, previous):
        self.inputs, self.loss, self.previous = inputs, loss, previous


class Log:
    __slots__ = ("newest",)

    def __init__(self):
        self.newest = None

    def add(self, inputs, loss):
        self.newest = Record(inputs, loss, self.newest)


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    log = Log()
    for _ in range(STEPS):
        inputs = torch.randn(32, 256, device="cuda")  # LEAK
        log.add(inputs, train_step(model, optimizer, inputs))
        probe.step()
