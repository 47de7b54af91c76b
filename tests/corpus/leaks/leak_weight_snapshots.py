"""A copy of all weights after each step, for an average that nobody takes."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    snapshots = []
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        snapshots.append([p.detach().clone() for p in model.parameters()])  # LEAK
        probe.step()
