"""One row of each batch: a view, which keeps the whole batch."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    examples = []
    for _ in range(STEPS):
        inputs = batch(512)  # LEAK
        train_step(model, optimizer, inputs)
        examples.append(inputs[0])
        probe.step()
