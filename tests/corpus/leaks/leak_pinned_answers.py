"""Inference: each answer is copied to page-locked memory and kept; GPU memory does not grow."""
import torch

from leak_truth import STEPS, batch, small_net

KEPT_BYTES = 0


def main(probe):
    global KEPT_BYTES
    probe.measure(counter=lambda: KEPT_BYTES)
    model = small_net().eval()
    answers = {}
    for number in range(STEPS):
        with torch.inference_mode():
            result = model(batch())
        answers[number] = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)  # LEAK
        answers[number].copy_(result)
        KEPT_BYTES += answers[number].nbytes
        probe.step()
