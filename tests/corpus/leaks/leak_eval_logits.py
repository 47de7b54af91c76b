"""After each epoch an evaluation without no_grad; its logits go to a table of results."""
import torch
from torch import nn


class Results:
    def __init__(self):
        self.table = {}

    def add(self, epoch, logits):
        self.table.setdefault("valid", {})[epoch] = logits


def evaluate(model):
    model.eval()
    logits = [model(torch.randn(32, 72, device="cuda")) for _ in range(2)]  # LEAK
    model.train()
    return torch.cat(logits)


def main(probe):
    probe.measure(every=3)
    model = nn.Sequential(nn.Linear(72, 144), nn.ReLU(), nn.Dropout(0.1), nn.Linear(144, 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    results = Results()
    for epoch in range(8):
        for part in range(3):
            loss = model(torch.randn(32, 72, device="cuda")).logsumexp(1).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if part == 2:
                results.add(epoch, evaluate(model))
            probe.step()
