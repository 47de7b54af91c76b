"""Requests that register their own method on themselves: cycles, which the collector takes now and then."""
import gc

import torch

from leak_truth import STEPS, small_net


class Request:
    def __init__(self, net):
        self.net, self.done = net, []
        self.done.append(self.finish)  # a bound method: the cycle

    def run(self):
        self.mask = torch.rand(64, 256, device="cuda") > 0.5  # LEAK
        self.result = self.net(torch.randn(64, 256, device="cuda") * self.mask)  # LEAK
        for call in self.done:
            call()

    def finish(self):
        self.answer = int(self.result.argmax())


def main(probe):
    probe.measure(collected=True)
    net = small_net()
    gc.collect()
    gc.set_threshold(70, 5, 5)
    with torch.no_grad():
        for _ in range(STEPS * 3):
            Request(net).run()
            if len(probe.samples) < STEPS:
                probe.step()
