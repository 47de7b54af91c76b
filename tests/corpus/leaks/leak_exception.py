"""Exceptions kept for a summary: their tracebacks hold the frames, and those the tensors."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def risky(model, inputs):
    outputs = model(inputs).exp()  # LEAK
    if outputs is not None:
        raise ValueError("not finite")


def main(probe):
    # who holds it is not in the stacks: that the graph is held is true
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    errors = []
    for _ in range(STEPS):
        inputs = batch()
        train_step(model, optimizer, inputs)
        try:
            risky(model, inputs)
        except ValueError as error:
            errors.append(error)
        probe.step()
