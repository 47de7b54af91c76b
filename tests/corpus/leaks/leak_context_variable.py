"""A list in a context variable, which no frame and no module has."""
import contextvars

import torch

from leak_truth import STEPS, batch, small_net, train_step

request = contextvars.ContextVar("request")


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    request.set([])
    for _ in range(STEPS):
        inputs = batch()  # LEAK
        request.get().append(inputs)
        train_step(model, optimizer, inputs)
        probe.step()
