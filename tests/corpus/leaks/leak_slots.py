"""Records with __slots__ in a deque without a bound."""
import collections

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Transition:
    __slots__ = ("state", "reward", "next")

    def __init__(self, state, reward, next):
        self.state, self.reward, self.next = state, reward, next


class Agent:
    def __init__(self):
        self.memory = collections.deque()
        self.q = small_net()
        self.opt = torch.optim.RMSprop(self.q.parameters())

    def observe(self, s):
        self.memory.append(Transition(s, 0.5, None))

    def learn(self):
        return train_step(self.q, self.opt, self.memory[-1].state)


def main(probe):
    agent = Agent()
    for _ in range(STEPS):
        agent.observe(batch(48) * 2)  # LEAK
        agent.learn()
        probe.step()
