"""Tensors are the keys of a dict."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = {}
    for step in range(STEPS):
        x = batch(24)  # LEAK
        seen[x] = step
        train_step(model, optimizer, x)
        probe.step()
