"""Layers thaw one after the other: their gradients and optimizer state come late, over several steps."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net(depth=5)
    linears = [layer for layer in model if hasattr(layer, "weight")]
    for layer in linears[:-1]:
        layer.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS + 6):
        if step % 2 == 1 and step // 2 < len(linears):
            linears[-1 - step // 2].requires_grad_(True)
        train_step(model, optimizer, batch())
        probe.step()
