"""A warm-up of the batch size, from 8 to 64 rows in eight steps."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS + 4):
        inputs = batch(min(8 * (step + 1), 64))
        train_step(model, optimizer, inputs)
        probe.step()
