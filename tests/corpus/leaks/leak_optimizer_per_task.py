"""Continual learning: a new optimizer for each task, the old ones in a list: state for the same parameters again and again."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    net, past = small_net(), []
    for _ in range(STEPS):
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        net(batch()).square().mean().backward()
        optimizer.step()  # LEAK
        optimizer.zero_grad()
        past.append(optimizer)
        probe.step()
