"""Outputs of an epoch of seven steps are kept for its metric, then cleared."""
import torch

from leak_truth import batch, small_net


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        outputs = []
        for _ in range(7):
            output = model(batch())
            output.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            outputs.append(output.detach())
            probe.step()
        torch.cat(outputs).mean().item()
        outputs.clear()
