"""Samples for a picture, every fourth step."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


@torch.no_grad()
def sample(model):
    return model(batch(8)).sigmoid()  # LEAK


def main(probe):
    probe.measure(every=4, first=4)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    samples = []
    for step in range(STEPS + 7):
        train_step(model, optimizer, batch())
        if step % 4 == 0:
            samples.append(sample(model))
        probe.step()
