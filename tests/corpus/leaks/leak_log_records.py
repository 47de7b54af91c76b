"""A logging handler that keeps its records until an error comes: their arguments are tensors."""
import logging
import logging.handlers

import torch

from leak_truth import STEPS, batch, small_net

log = logging.getLogger("training")


def main(probe):
    log.setLevel(logging.DEBUG)
    log.propagate = False
    log.addHandler(logging.handlers.MemoryHandler(100000, flushLevel=logging.CRITICAL))
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(STEPS):
        data = batch(48)
        predicted = model(data)
        loss = (predicted - 1).abs().mean()
        penalty = predicted.var()
        (loss + 0.1 * penalty).backward()
        optimizer.step()
        optimizer.zero_grad()
        log.debug("step %d validation %s", step, model(data).pow(2).mean())  # LEAK
        probe.step()
