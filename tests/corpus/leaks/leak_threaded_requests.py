"""A server of threads, one for each request; a log keeps what the last layer gave."""
import threading

import torch
from torch import nn

from leak_truth import STEPS


class Service:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda().eval()
        self.audit = {}

    def handle(self, key):
        with torch.no_grad():
            out = self.model(torch.randn(64, 256).cuda())  # LEAK
            self.audit[key] = out
            return out.shape


def main(probe):
    service = Service()
    for i in range(STEPS):
        thread = threading.Thread(target=service.handle, args=(i,))
        thread.start()
        thread.join()
        probe.step()
