"""The classic: a sum of losses keeps the graph of a forward that never goes backward."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    total = 0
    for _ in range(STEPS):
        inputs = batch()
        train_step(model, optimizer, inputs)
        total = total + model(inputs).square().mean()  # LEAK
        probe.step()
