"""Q-learning whose replay memory has no bound: states stay on the device."""
import random
from typing import NamedTuple

import torch
from torch import nn


class Transition(NamedTuple):
    state: torch.Tensor
    action: int
    reward: float


class Memory:
    def __init__(self):
        self.transitions = []

    def push(self, *parts):
        self.transitions.append(Transition(*parts))

    def sample(self, count):
        return [random.choice(self.transitions) for _ in range(count)]


class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(84, 128), nn.ReLU(), nn.Linear(128, 6)).cuda()
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-4)
        self.memory = Memory()

    @torch.no_grad()
    def act(self, state):
        return int(self.q(state).mean(0).argmax())

    def learn(self):
        drawn = self.memory.sample(4)
        states = torch.cat([one.state for one in drawn])
        loss = self.q(states).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main(probe):
    agent = Agent()
    for _ in range(20):
        state = torch.rand(16, 84).cuda()  # LEAK
        agent.memory.push(state, agent.act(state), 1.0)
        agent.learn()
        probe.step()
