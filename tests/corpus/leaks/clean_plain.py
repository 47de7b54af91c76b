"""Nothing but training."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        probe.step()
