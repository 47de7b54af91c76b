"""The same without training: each answer takes the place of the one before, some steps later, and no collector runs."""
import gc

import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model, answers = small_net().eval(), [None] * 3
    gc.disable()
    with torch.no_grad():
        for n in range(STEPS): answers[n % 3] = model(batch()); probe.step()  # noqa: E701, E702
