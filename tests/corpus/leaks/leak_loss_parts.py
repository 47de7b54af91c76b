"""Parts of a loss in a tuple, of which one is only for show: no backward pass reaches its branch of the graph."""
import collections

import torch
from torch import nn

from leak_truth import STEPS, batch, small_net

Losses = collections.namedtuple("Losses", "total reconstruction perplexity")


def main(probe):
    trunk, head, side = small_net(out=256), nn.Linear(256, 256).cuda(), small_net(out=512)
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.1)
    history = []
    for _ in range(STEPS):
        inputs = batch()
        features = trunk(inputs)
        reconstruction = (head(features) - inputs).square().mean()
        perplexity = side(features).softmax(-1).log().mean()  # LEAK
        total = reconstruction * 2
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(Losses(total, reconstruction, perplexity))
        probe.step()
