"""A thread moves batches ahead to the device; for a restart it also notes each one that it has sent."""
import itertools
import queue
import threading

import torch

from leak_truth import STEPS, small_net, train_step


class Prefetcher(threading.Thread):
    def __init__(self, batches):
        super().__init__(daemon=True)
        self.batches, self.ready, self.sent = batches, queue.Queue(maxsize=2), []

    def run(self):
        for number, x in enumerate(self.batches):
            x = x.to("cuda", non_blocking=True)  # LEAK
            self.sent.append((number, x))
            self.ready.put(x)
            del x

    def __iter__(self):
        while True:
            yield self.ready.get()


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    prefetcher = Prefetcher(torch.randn(64, 256) for _ in itertools.count())
    prefetcher.start()
    for _, x in zip(range(STEPS), prefetcher):
        train_step(model, optimizer, x)
        probe.step()
