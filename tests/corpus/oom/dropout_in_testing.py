"""A predictor runs over a test set with gradients on, and averages over many forwards with dropout."""
import contextlib
import sys

import torch
from torch import nn

from oom_truth import watch

REMEDY = "remedy" in sys.argv
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Dropout(0.2), nn.Linear(2048, 2048), nn.ReLU(), nn.Dropout(0.2),
                      nn.Linear(2048, 16)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def predict(x, samples=24):
    total = 0
    for _ in range(samples):
        total = total + model(x).softmax(-1)  # asks
    return total / samples


watch()
for _ in range(6):
    model(torch.randn(1024, 512, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad() if REMEDY else contextlib.nullcontext():
    for _ in range(3):
        predict(torch.randn(4096, 512, device="cuda")).argmax(-1).cpu()
