"""Inference as a generator, whose consumer keeps all predictions on the GPU."""
import torch

from leak_truth import STEPS, batch, small_net


@torch.no_grad()
def predictions(model, probe):
    for _ in range(STEPS):
        yield model(batch()).softmax(-1)  # LEAK
        probe.step()


def main(probe):
    model = small_net()
    kept = list(predictions(model, probe))
    assert len(kept) == STEPS
