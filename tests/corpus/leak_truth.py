"""What the programs of leaks/ share: the probe that takes the truth, and small nets and batches."""
import ctypes
import json
import pathlib
import statistics

import torch
from torch import nn

STEPS = 18
WARM_STEPS = 4  # optimizer state, workspaces, first allocations


class Probe:
    """Samples the allocator's own counter at the same place of every step. What a program keeps with each step is bytes_per_step;
    the lines that allocate it end with "# LEAK".
    """

    def __init__(self, script, path):
        self.script, self.path = pathlib.Path(script), path
        self.samples = []
        self.look = getattr(ctypes.CDLL(None), "vramtrace_inspect", lambda name: None)
        self.measure()

    def measure(self, every=1, collected=False, first=WARM_STEPS, counter=torch.cuda.memory_allocated, seen_at=STEPS - 2):
        """every: it grows every so many steps. collected: the collector takes it back now and then, so that the median of the
        differences is what one step leaves. first: the first sample that counts. counter: what is sampled. seen_at: the step after
        which an inspection is requested."""
        self.every, self.collected, self.first, self.counter, self.seen_at = every, collected, first, counter, seen_at

    def step(self):
        self.samples.append(self.counter())
        # These processes live for a second: their part of it would buy no census. Where the collector comes by, it may just
        # have been there, and nothing is left to be seen: so several looks.
        if self.seen_at <= len(self.samples) < self.seen_at + 1 + 2 * self.collected:
            self.look(b"held")

    def bytes_per_step(self):
        samples = self.samples[self.first:]
        if self.collected:
            return statistics.median(b - a for a, b in zip(samples, samples[1:]))
        whole = (len(samples) - 1) // self.every * self.every
        return (samples[whole] - samples[0]) / whole

    def write(self):
        lines = [number for number, line in enumerate(self.script.read_text().splitlines(), 1) if "# LEAK" in line]
        self.path.write_text(json.dumps({"bytes_per_step": self.bytes_per_step(), "lines": lines}))


def small_net(width=256, depth=2, out=64):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, out)).cuda()


def batch(rows=32, width=256):
    return torch.randn(rows, width).cuda()


def train_step(model, optimizer, inputs):
    """An ordinary step; the loss as a number."""
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
