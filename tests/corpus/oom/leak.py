"""A training loop that keeps each step's output, with its graph."""
import torch
from torch import nn

from oom_truth import watch

model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
watch()
kept = []
while True:
    data = torch.randn(16384, 512, device="cuda")
    out = model(data)  # asks
    out.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(out)
