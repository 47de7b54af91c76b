"""functools.partial keeps a batch in a list of what is to be done at the end."""
import functools

import torch

from leak_truth import STEPS, batch, small_net, train_step

AT_END = []


def save_sample(sample, folder):
    return folder, sample.sum()


def main(probe):
    model = small_net()
    opt = torch.optim.Adagrad(model.parameters())
    for i in range(STEPS):
        x = batch(40)  # LEAK
        AT_END.append(functools.partial(save_sample, x, folder=f"out/{i}"))
        train_step(model, opt, x)
        probe.step()
