"""Gradients of four batches in each step, their losses summed up and shown."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        total = 0
        for _ in range(4):
            loss = model(batch()).square().mean() / 4
            loss.backward()
            total += loss
        optimizer.step()
        optimizer.zero_grad()
        float(total)
        probe.step()
