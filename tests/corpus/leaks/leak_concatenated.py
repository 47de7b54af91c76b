"""All predictions in one tensor, which each step makes anew: nothing that a step made is kept, and it grows all the same."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    predictions = torch.zeros(0, 64, device="cuda")
    for _ in range(STEPS):
        outputs = model(batch())
        outputs.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        predictions = torch.cat([predictions, outputs.detach()])  # LEAK
        probe.step()
