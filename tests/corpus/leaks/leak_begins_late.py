"""Nothing for eight steps; then hard examples are collected."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    probe.measure(first=9)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    hard = []
    for step in range(STEPS + 4):
        inputs = batch()
        train_step(model, optimizer, inputs)
        if step >= 8:
            hard.append(inputs.clone())  # LEAK
        probe.step()
