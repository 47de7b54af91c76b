"""A decorator that times a function, and keeps what each call returned in its closure."""
import functools
import time

import torch

from leak_truth import STEPS, batch, small_net, train_step


def timed(function):
    calls = []

    @functools.wraps(function)
    def wrapper(*arguments):
        began = time.perf_counter()
        result = function(*arguments)
        calls.append({"seconds": time.perf_counter() - began, "result": result})
        return result
    return wrapper


@timed
@torch.no_grad()
def evaluate(model, inputs):
    return model(inputs)  # LEAK


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        evaluate(model, batch())
        probe.step()
