"""A metric with list states, in the manner of torchmetrics: update() is called in each step, reset() never, and nobody detaches."""
import torch
from torch import nn


class Metric(nn.Module):
    def __init__(self):
        super().__init__()
        self._defaults = {}

    def add_state(self, name, default):
        self._defaults[name] = default
        setattr(self, name, list(default))

    def reset(self):
        for name, default in self._defaults.items():
            setattr(self, name, list(default))


class Correlation(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("preds", [])
        self.add_state("target", [])

    def update(self, preds, target):
        self.preds.append(preds)
        self.target.append(target)


def main(probe):
    model = nn.Sequential(nn.Linear(80, 160), nn.Sigmoid(), nn.Linear(160, 1)).cuda()
    metrics = nn.ModuleDict({"train_metrics": Correlation(), "valid_metrics": Correlation()})
    optimizer = torch.optim.NAdam(model.parameters())
    for _ in range(20):
        x, y = torch.randn(64, 80, device="cuda"), torch.randn(64, 1, device="cuda")
        preds = model(x)  # LEAK
        nn.functional.mse_loss(preds, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        metrics["train_metrics"].update(preds, y)
        probe.step()
