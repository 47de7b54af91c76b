"""The hardest batches are to be seen again: they go into a heap, and none is thrown out."""
import heapq
import itertools

import torch

from leak_truth import STEPS, small_net, train_step

HARD = []


def remember(loss, x, ticket=itertools.count()):
    heapq.heappush(HARD, (-loss, next(ticket), {"images": x, "loss": loss}))


def loader():
    while True:
        yield torch.randn(40, 256).to("cuda", non_blocking=True)  # LEAK


def main(probe):
    model = small_net()
    optimizer = torch.optim.NAdam(model.parameters())
    for x, _ in zip(loader(), range(STEPS)):
        loss = train_step(model, optimizer, x)
        remember(loss, x)
        train_step(model, optimizer, HARD[0][2]["images"])
        probe.step()
