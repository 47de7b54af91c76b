"""Two causes in one loop: the larger comes first, and each has its own entry."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    total, weights = 0, []
    for _ in range(STEPS):
        inputs = batch(512)
        train_step(model, optimizer, inputs)
        total = total + model(inputs).square().mean()  # LEAK
        weights.append(model[0].bias.detach().clone())
        probe.step()
