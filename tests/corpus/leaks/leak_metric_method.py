"""A metric whose method is wrapped and stored on itself, so that it is in a cycle; its list grows while it is in use."""
import torch

from leak_truth import STEPS, batch, small_net


class Metric(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.predictions = []
        self.update = self.wrapped(self.update)

    def wrapped(self, function):
        def update(values):
            return function(values)
        return update

    def update(self, values):
        self.predictions.append(values)


def main(probe):
    model, metric = small_net(), Metric()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS + 12):
        outputs = model(batch())  # LEAK
        metric.update(outputs.detach())
        outputs.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
