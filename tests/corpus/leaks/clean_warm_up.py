"""A pool of staging buffers that grows while the service warms up, and then has what it needs."""
import torch

from leak_truth import STEPS, small_net


class Staging:
    def __init__(self):
        self.free, self.made = [], 0

    def take(self):
        if self.free:
            return self.free.pop()
        self.made += 1
        return torch.empty(64, 256, device="cuda")

    def give(self, buffer):
        self.free.append(buffer)


def main(probe):
    net, staging = small_net(), Staging()
    with torch.no_grad():
        for number in range(STEPS):
            taken = [staging.take() for _ in range(min(1 + number, 7))]
            for buffer in taken:
                net(buffer.normal_())
            for buffer in taken:
                staging.give(buffer)
            probe.step()
