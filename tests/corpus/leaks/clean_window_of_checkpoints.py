"""The mean of the last four weights, and of the last eight losses: windows that move."""
from collections import deque

import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights, losses = deque(maxlen=4), deque(maxlen=8)
    for _ in range(STEPS + 4):
        inputs = batch()
        train_step(model, optimizer, inputs)
        weights.append({name: value.clone() for name, value in model.state_dict().items()})
        losses.append(model(inputs).detach().square())
        with torch.no_grad():
            {name: sum(w[name] for w in weights) / len(weights) for name in weights[0]}
        probe.step()
