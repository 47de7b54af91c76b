"""Rollouts that fill a buffer and are cleared after the update; the run ends while the next one fills."""
import torch
from torch import nn

from leak_truth import STEPS


class Rollouts:
    def __init__(self):
        self.states, self.values = [], []

    def add(self, state, value):
        self.states.append(state)
        self.values.append(value)

    def clear(self):
        self.__init__()


def main(probe):
    policy = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 8)).cuda()
    optimizer, rollouts = torch.optim.Adam(policy.parameters()), Rollouts()
    for step in range(2 * STEPS):
        with torch.no_grad():
            for _ in range(4):
                state = torch.randn(32, 64, device="cuda")
                rollouts.add(state, policy(state))
        policy(rollouts.states[-1]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9:
            rollouts.clear()
        probe.step()
