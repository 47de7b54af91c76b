"""A queue of the last ten batches of keys in one tensor, made anew in each step."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    queue = torch.zeros(0, 64, device="cuda")
    for _ in range(STEPS + 8):
        keys = model(batch())
        keys.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        queue = torch.cat([queue, keys.detach()])[-320:].clone()
        probe.step()
