"""A training that skips bad batches and keeps (exception, step) for its summary."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net

failures = []


def check(loss):
    if not loss.isnan().any():  # what a real check would do with NaN
        raise FloatingPointError(f"loss {float(loss)}")


def training_step(net, optimizer, images):
    scores = net(images)
    margins = nn.functional.softplus(scores).square()  # LEAK
    check(margins.mean())  # LEAK
    optimizer.step()


def main(probe):
    net = small_net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(STEPS):
        net(batch()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        try:
            training_step(net, optimizer, batch(64))
        except FloatingPointError as error:
            failures.append((step, error))
        probe.step()
