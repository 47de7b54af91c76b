"""Validation with gradients on: dear, but each result is dropped for the next."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def validate(model):
    losses = [model(batch()).square().mean() for _ in range(3)]
    return float(sum(losses))


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        train_step(model, optimizer, batch())
        if step % 2:
            validate(model)
        probe.step()
