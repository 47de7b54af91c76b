"""A class that knows all its objects; the tensor is an attribute of each, and what grows is the list of the class."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class Batch:
    known = []

    def __init__(self):
        self.inputs = batch()  # LEAK
        self.known.append(self)


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, Batch().inputs)
        probe.step()
