"""Validation without no_grad, and its outputs gathered for a metric at the very end."""
import torch
import torch.nn.functional as F

from leak_truth import STEPS, batch, small_net, train_step


class Evaluator:
    def __init__(self, model):
        self.model, self.gathered = model, []

    def __call__(self, x):
        self.model.eval()
        self.gathered.append(F.softmax(self.model(x), -1))  # LEAK
        self.model.train()


def main(probe):
    model = small_net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    evaluate = Evaluator(model)
    for _ in range(STEPS):
        train_step(model, opt, batch())
        evaluate(batch())
        probe.step()
