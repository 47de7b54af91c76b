"""A hook on a parameter that keeps each gradient's sign."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class Watcher:
    def __init__(self, parameter):
        self.signs = []
        parameter.register_hook(self.look)

    def look(self, gradient):
        self.signs.append(gradient.sign())  # LEAK


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    watcher = Watcher(model[0].weight)
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        probe.step()
    assert len(watcher.signs) == STEPS
