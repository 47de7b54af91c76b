"""A page-locked copy of each batch, all kept."""
import torch

from leak_truth import STEPS, small_net, train_step

KEPT_BYTES = 0


def main(probe):
    probe.measure(counter=lambda: KEPT_BYTES)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    kept = []
    for _ in range(STEPS):
        kept.append(torch.randn(64, 256).pin_memory())  # LEAK
        global KEPT_BYTES
        KEPT_BYTES += kept[-1].nbytes
        train_step(model, optimizer, kept[-1].cuda(non_blocking=True))
        probe.step()
