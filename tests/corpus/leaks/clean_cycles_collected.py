"""Each step leaves a small cycle, and the loop calls gc.collect() each time."""
import gc

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Node:
    def __init__(self, x):
        self.x, self.me = x * 2, self


def main(probe):
    model = small_net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        x = batch()
        Node(x)
        train_step(model, opt, x)
        gc.collect()
        probe.step()
