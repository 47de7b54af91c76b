"""Inference in a loop of one line; results are taken to the CPU and dropped every seven batches."""
import torch

from leak_truth import batch, small_net


@torch.no_grad()
def main(probe):
    model, data = small_net(), [batch() for _ in range(28)]
    outputs = []
    for number, inputs in enumerate(data):
        outputs.append(model(inputs))
        if number % 7 == 6:
            outputs[0].cpu()
            outputs.clear()
        probe.step()
