"""A data pipeline of generators; one keeps all that it has passed on, to shuffle later."""
import torch

from leak_truth import STEPS, small_net, train_step


def load():
    while True:
        yield torch.randn(32, 256, device="cuda")  # LEAK


def remember(source):
    shown = []
    for inputs in source:
        shown.append(inputs)
        yield inputs


def normalize(source):
    for inputs in source:
        yield inputs - 0.5


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    stream = normalize(remember(load()))
    for _ in range(STEPS):
        train_step(model, optimizer, next(stream))
        probe.step()
