"""Each task gets an adapter of its own, under a name; the adapters of earlier tasks stay in the model."""
import torch
from torch import nn

from leak_truth import STEPS, batch

TASKS = ["birds", "cars", "dogs", "fish", "goats", "hats", "inks", "jars", "kites"]


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.adapters = nn.Linear(256, 128), nn.ModuleDict()

    def forward(self, x, task):
        return self.adapters[task](self.body(x))


def main(probe):
    probe.measure(every=2)
    model = Adapted().cuda()
    optimizer = torch.optim.SGD(model.body.parameters(), lr=0.01)
    for step in range(STEPS):
        if step % 2 == 0:
            task = TASKS[step // 2]
            model.adapters[task] = nn.Linear(128, 40, device="cuda")  # LEAK
        model(batch(), task).square().mean().backward()
        optimizer.step()
        model.zero_grad()
        probe.step()
