"""A cycle per step, with the collector switched off."""
import gc

import torch

from leak_truth import STEPS, batch, small_net, train_step


class State:
    def __init__(self, value):
        self.value = value
        self.update = lambda: self.value  # closes over self


def main(probe):
    # that it is a cycle shows only when the collector runs
    gc.disable()
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        inputs = batch()
        train_step(model, optimizer, inputs)
        State(inputs.softmax(-1)).update()  # LEAK
        probe.step()
