"""A buffer that is a little larger in each step: what was freed lies there, but in pieces that are too small."""
import torch

from leak_truth import STEPS, batch, small_net, train_step

MIB = 1 << 20


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS):
        train_step(model, optimizer, batch())
        buffer = torch.empty((20 + 2 * step) * MIB, dtype=torch.uint8, device="cuda")
        del buffer
        probe.step()
