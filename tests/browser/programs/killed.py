"""Ends in the middle of a backward pass, without a chance to say so."""
import os
import signal

import torch
from torch import nn


class Last(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values * 2

    @staticmethod
    def backward(context, gradient):
        os.kill(os.getpid(), signal.SIGKILL)


model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(6):
    batch = torch.randn(128, 512, device="cuda")
    hidden = model[:3](batch)
    model[3:](Last.apply(hidden) if step == 5 else hidden).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
