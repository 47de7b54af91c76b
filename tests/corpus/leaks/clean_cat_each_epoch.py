"""Predictions of an epoch of seven steps in one tensor, which begins anew with the next."""
import torch

from leak_truth import batch, small_net


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        predictions = torch.zeros(0, 64, device="cuda")
        for _ in range(7):
            outputs = model(batch())
            outputs.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            predictions = torch.cat([predictions, outputs.detach()])
            probe.step()
        predictions.mean().item()
