"""Each task gets a new head; the optimizer's groups still have the heads of all tasks before, with their state."""
import torch
from torch import nn


class Learner:
    def __init__(self):
        self.body = nn.Sequential(nn.Linear(60, 120), nn.ReLU()).cuda()
        self.head = None
        self.optimizer = torch.optim.AdamW(self.body.parameters(), lr=1e-3)

    def begin_task(self):
        self.head = nn.Linear(120, 64).cuda()  # LEAK
        self.optimizer.add_param_group({"params": list(self.head.parameters())})

    def step(self):
        loss = self.head(self.body(torch.randn(30, 60, device="cuda"))).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()  # LEAK


def main(probe):
    probe.measure(every=2)
    learner = Learner()
    for _ in range(10):
        learner.begin_task()
        for _ in range(2):
            learner.step()
            probe.step()
