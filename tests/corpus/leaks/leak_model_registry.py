"""A registry of classes keeps each round's fine-tuned model."""
import copy

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Registry:
    models = {}

    @classmethod
    def register(cls, name, model):
        cls.models[name] = model


def main(probe):
    base = small_net()
    for i in range(STEPS):
        tuned = copy.deepcopy(base)  # LEAK
        opt = torch.optim.SGD(tuned.parameters(), lr=0.1)
        train_step(tuned, opt, batch())
        Registry.register(f"round{i}", tuned)
        del tuned, opt
        probe.step()
