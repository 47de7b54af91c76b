"""Inference of one model and then of another one, whose outputs are kept."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net


def main(probe):
    probe.measure(first=STEPS + 4, seen_at=2 * STEPS - 2)
    first, second, kept = small_net().eval(), nn.Linear(256, 512).cuda().eval(), []
    with torch.no_grad():
        for _ in range(STEPS):
            first(batch())
            probe.step()
        for _ in range(STEPS):
            kept.append(second(batch()))  # LEAK
            probe.step()
