"""The three batches with the largest loss are kept in a heap and seen again; a harder one takes the place of the easiest."""
import heapq
import random

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Hardest:
    def __init__(self, count):
        self.count, self.heap, self.tickets = count, [], 0

    def offer(self, loss, x):
        self.tickets += 1
        entry = (loss, self.tickets, x)
        if len(self.heap) < self.count:
            heapq.heappush(self.heap, entry)
        else:
            heapq.heappushpop(self.heap, entry)


def main(probe):
    random.seed(1)
    model, hardest = small_net(), Hardest(3)
    optimizer = torch.optim.RMSprop(model.parameters())
    for _ in range(STEPS):
        x = batch(rows=40)
        train_step(model, optimizer, x)
        hardest.offer(random.random(), x)
        train_step(model, optimizer, random.choice(hardest.heap)[2])
        probe.step()
