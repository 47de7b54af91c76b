"""Streams that clients left: each generator stands where it yielded last, and its locals stay."""
import torch

from leak_truth import STEPS, small_net


def stream(model, rows):
    state = torch.randn(rows, 256, device="cuda")  # LEAK
    logits = model(state).log_softmax(-1)  # LEAK
    for row in logits:
        yield int(row.argmax())


class Gateway:
    def __init__(self):
        self.model, self.streams = small_net(), []

    @torch.no_grad()
    def open(self):
        self.streams.append(stream(self.model, 64))
        return next(self.streams[-1])


def main(probe):
    gateway = Gateway()
    for _ in range(STEPS):
        gateway.open()
        probe.step()
