"""Evaluation runs on a thread of its own; the futures stay in a list, with their results."""
from concurrent.futures import ThreadPoolExecutor

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Background:
    def __init__(self, model):
        self.model, self.pool, self.futures = model, ThreadPoolExecutor(1), []

    def score(self, x):
        with torch.no_grad():
            return self.model(x).softmax(-1)  # LEAK

    def submit(self, x):
        self.futures.append(self.pool.submit(self.score, x))

    def wait(self):
        self.pool.submit(int).result()  # the worker has let go of all before


def main(probe):
    model = small_net(out=128)
    background = Background(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        background.submit(batch())
        background.wait()
        probe.step()
    background.pool.shutdown()
