"""Evaluation puts its predictions into a queue that nothing reads."""
import queue

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Evaluator:
    def __init__(self, model):
        self.model = model
        self.results = queue.Queue()

    @torch.no_grad()
    def __call__(self, inputs):
        self.results.put(("eval", self.model(inputs)))  # LEAK


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    evaluate = Evaluator(model)
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        evaluate(batch())
        probe.step()
