"""Workers with a queue each, so that requests overlap; one of the three kinds of request leaks."""
import queue
import threading

import torch

from leak_truth import STEPS, small_net


class Worker(threading.Thread):
    results = []

    def __init__(self, net):
        super().__init__(daemon=True)
        self.net, self.inbox, self.done = net, queue.Queue(), queue.Queue()
        self.start()

    def run(self):
        for kind, rows in iter(self.inbox.get, None):
            with torch.no_grad():
                hidden = self.net[:3](torch.randn(rows, 256, device="cuda"))
                if kind == "rank":
                    Worker.results.append(self.net[3:](hidden).sigmoid())  # LEAK
                else:
                    self.net[3:](hidden).sigmoid().mean().item()
            self.done.put(kind)


def main(probe):
    net = small_net(depth=3)
    workers = [Worker(net) for _ in range(3)]
    for _ in range(STEPS):
        for number, kind in enumerate(("rank", "score", "check")):
            workers[number].inbox.put((kind, 32))
        for worker in workers:
            worker.done.get()
        probe.step()
    for worker in workers:
        worker.inbox.put(None)
    probe.samples = [sample / 3 for sample in probe.samples]  # three requests are between two samples
