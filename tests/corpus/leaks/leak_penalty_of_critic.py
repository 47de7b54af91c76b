"""A new small critic for each task, trained with a gradient penalty by create_graph=True, and dropped without zero_grad()."""
import gc

import torch
from torch import nn

from leak_truth import STEPS, batch


def main(probe):
    probe.measure(every=3, first=5)
    for _ in range(STEPS):
        critic = nn.Sequential(nn.Linear(256, 96), nn.Tanh(), nn.Linear(96, 1)).cuda()  # LEAK
        optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            critic(batch()).mean().backward(create_graph=True)  # LEAK
            sum(p.grad.square().sum() for p in critic.parameters()).item()
            probe.step()
            optimizer.step()
        del critic, optimizer
        gc.collect()
