"""A better model is made for the second stage, while a variable still holds the first, with its optimizer."""
import sys

import torch
from torch import nn

from oom_truth import watch


def build():
    model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(5)]).cuda()
    return model, torch.optim.Adam(model.parameters())


def train(model, optimizer, steps=6):
    for _ in range(steps):
        loss = model(torch.randn(256, 4096, device="cuda")).square().mean()
        loss.backward()  # asks
        optimizer.step()
        optimizer.zero_grad()


watch()
first, first_optimizer = build()
train(first, first_optimizer)
if "remedy" in sys.argv:
    del first, first_optimizer
second, second_optimizer = build()
train(second, second_optimizer)
