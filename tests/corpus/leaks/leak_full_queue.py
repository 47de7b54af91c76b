"""A producer that is faster than its consumer: an unbounded queue of batches on the GPU."""
import queue
import threading

import torch

from leak_truth import STEPS, small_net, train_step


class Feeder:
    def __init__(self):
        self.queue, self.go = queue.Queue(), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._feed, daemon=True)
        self.thread.start()

    def _feed(self):
        while self.go.acquire():
            for _ in range(2):
                self.queue.put(torch.rand(32, 256).cuda(non_blocking=True))  # LEAK

    def __iter__(self):
        while True:
            self.go.release()
            yield self.queue.get()


def main(probe):
    net = small_net()
    optimizer = torch.optim.AdamW(net.parameters())
    feeder = Feeder()
    for _, images in zip(range(STEPS), feeder):
        while feeder.queue.qsize() <= len(probe.samples):  # it is always ahead, and waits for this step's end
            pass
        train_step(net, optimizer, images)
        probe.step()
