"""What went wrong is kept as sys.exc_info() gives it, for a report at the end of training."""
import sys

import torch
from torch import nn

failures = []


def check(value, limit):
    if value.numel() > limit:
        raise OverflowError("loss explodes")


def forward(model, inputs):
    hidden = model[0](inputs).relu()  # LEAK
    outputs = model[1](hidden)  # LEAK
    check(outputs, 10)
    return outputs.mean()


def main(probe):
    model = nn.ModuleList([nn.Linear(200, 100), nn.Linear(100, 16)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        inputs = torch.randn(36, 200, device="cuda")
        try:
            loss = forward(model, inputs)
        except OverflowError:
            failures.append(sys.exc_info())
            loss = model[1](model[0](inputs[:8]).relu()).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
