"""Validation every third step, with gradients on, whose losses are kept for a plot."""
import torch
from torch.nn import functional

from leak_truth import STEPS, batch, small_net, train_step


def validate(model, losses):
    model.eval()
    targets = torch.zeros(32, dtype=torch.long, device="cuda")
    losses.append(functional.cross_entropy(model(batch()), targets))  # LEAK
    model.train()


def main(probe):
    probe.measure(every=3, first=5)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for step in range(STEPS + 3):
        train_step(model, optimizer, batch())
        if step % 3 == 2:
            validate(model, losses)
        probe.step()
