"""Replay buffers by task, in a defaultdict of deques of named tuples, with a limit nobody reaches."""
import collections

import torch

from leak_truth import STEPS, batch, small_net, train_step

Transition = collections.namedtuple("Transition", "state action reward")


class Replay:
    def __init__(self, limit):
        self.buffers = collections.defaultdict(lambda: collections.deque(maxlen=limit))

    def push(self, task, *values):
        self.buffers[task].append(Transition(*values))


class Agent:
    def __init__(self):
        self.policy = small_net()
        self.optimizer = torch.optim.Adam(self.policy.parameters())
        self.replay = Replay(1_000_000)

    def act(self, state):
        with torch.no_grad():
            return self.policy(state).argmax(1)


def main(probe):
    agent = Agent()
    for step in range(STEPS):
        state = torch.randn(64, 256, device="cuda")  # LEAK
        agent.replay.push("easy", state, agent.act(state).tolist(), float(step))
        train_step(agent.policy, agent.optimizer, batch())
        probe.step()
