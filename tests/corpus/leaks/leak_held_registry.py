"""A registry of runs on the class itself, filled by its initializer: a set that nobody empties, of data classes."""
import dataclasses
import typing

import torch

from leak_truth import STEPS, batch, small_net, train_step


@dataclasses.dataclass(eq=False)
class Run:
    number: int
    sample: torch.Tensor
    registry: typing.ClassVar[set] = set()

    def __post_init__(self):
        Run.registry.add(self)


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for number in range(STEPS):
        sample = torch.randn(16, 256, device="cuda")  # LEAK
        train_step(model, optimizer, batch())
        Run(number, sample)
        probe.step()
