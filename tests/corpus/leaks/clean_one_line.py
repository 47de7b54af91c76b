"""A whole step on one line: what it frees is freed in the middle of that line."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        loss = model(batch()).square().mean(); loss.backward(); optimizer.step(); optimizer.zero_grad(); probe.step()  # noqa: E702
