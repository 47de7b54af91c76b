"""Soft targets of a teacher, remembered by id(batch), with the batch so that the id stays its own."""
import torch
from torch import nn

_REMEMBERED = {}


def targets_of(teacher, batch):
    if id(batch) not in _REMEMBERED:
        with torch.no_grad():
            _REMEMBERED[id(batch)] = batch, teacher(batch).softmax(-1)  # LEAK
    return _REMEMBERED[id(batch)][1]


def main(probe):
    teacher, student = (nn.Sequential(nn.Linear(120, width), nn.ReLU(), nn.Linear(width, 30)).cuda() for width in (512, 64))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(20):
        batch = torch.randn(48, 120, device="cuda")  # LEAK
        loss = nn.functional.kl_div(student(batch).log_softmax(-1), targets_of(teacher, batch), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.step()
