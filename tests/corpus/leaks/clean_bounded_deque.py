"""A deque of the last six outputs."""
import collections

import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model, last = small_net(), collections.deque(maxlen=6)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        out = model(batch())
        last.append(out.detach())
        out.sum().backward()
        opt.step()
        opt.zero_grad()
        probe.step()
