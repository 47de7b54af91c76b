"""A learning-rate schedule with restarts, each with a new optimizer and so with new state."""
import torch

from leak_truth import batch, small_net, train_step


def main(probe):
    model = small_net()
    for _ in range(4):
        optimizer = torch.optim.AdamW(model.parameters())
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
        for _ in range(6):
            train_step(model, optimizer, batch())
            scheduler.step()
            probe.step()
