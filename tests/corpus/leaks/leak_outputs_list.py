"""The outputs of each step, kept after backward."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    outputs = []
    for _ in range(STEPS):
        outputs.append(model(batch()))  # LEAK
        outputs[-1].square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
