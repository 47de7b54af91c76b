"""A list as a default argument: one for all calls."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def note(inputs, seen=[]):
    seen.append(inputs * 2)  # LEAK
    return seen[-1]


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, note(batch()))
        probe.step()
