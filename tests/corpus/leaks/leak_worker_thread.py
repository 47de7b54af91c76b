"""A thread that brings batches to the GPU and forgets to forget them."""
import queue
import threading

import torch

from leak_truth import STEPS, small_net, train_step


class Loader(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.ready, self.wanted, self.seen = queue.Queue(1), queue.Queue(), []

    def run(self):
        while self.wanted.get():
            self.seen.append(torch.randn(64, 256).cuda())  # LEAK
            self.ready.put(self.seen[-1])


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = Loader()
    loader.start()
    for _ in range(STEPS):
        loader.wanted.put(True)
        train_step(model, optimizer, loader.ready.get())
        probe.step()
    loader.wanted.put(False)
    loader.join()
