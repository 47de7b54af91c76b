"""The batch is halved until it fits, and the run goes on."""
import torch
from torch import nn

from oom_truth import watch

model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
watch()


def step(rows):
    data = torch.randn(rows, 1024, device="cuda")
    model(data).sum().backward()  # asks
    optimizer.step()
    optimizer.zero_grad()


rows = 1 << 17
while True:
    try:
        for _ in range(3):
            step(rows)
        break
    except torch.OutOfMemoryError:
        rows //= 2
