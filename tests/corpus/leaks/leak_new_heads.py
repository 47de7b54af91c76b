"""Continual learning: each task gets a head of its own, and the optimizer a group; the old ones learn no more, and stay."""
import torch
from torch import nn

from leak_truth import STEPS, batch


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(256, 256), nn.ReLU())
        self.heads = nn.ModuleDict()

    def new_task(self, name):
        self.heads[name] = nn.Linear(256, 96, device="cuda")  # LEAK
        return self.heads[name]

    def forward(self, x, task):
        return self.heads[task](self.body(x))


def main(probe):
    model = MultiHead().cuda()
    optimizer = torch.optim.SGD(model.body.parameters(), lr=0.01, momentum=0.9)
    for task in range(STEPS):
        head = model.new_task(f"task{task}")
        optimizer.add_param_group({"params": list(head.parameters())})
        for _ in range(2):
            loss = model(batch(), f"task{task}").square().mean()
            loss.backward()
            optimizer.step()  # LEAK
            optimizer.zero_grad()
        del head, loss
        probe.step()
