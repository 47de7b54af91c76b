"""Epochs of six batches, the last one larger."""
import torch

from leak_truth import batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        for number in range(6):
            train_step(model, optimizer, batch(96 if number == 5 else 32))
            probe.step()
