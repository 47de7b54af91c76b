"""A trainer class gathers what each training step returns; nobody ends an epoch."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net


class Module:
    def __init__(self):
        self.net = small_net(out=256)

    def training_step(self, x):
        predicted = self.net(x)  # LEAK
        return {"loss": nn.functional.l1_loss(predicted, x), "predicted": predicted.detach(), "rows": len(x)}


class Fit:
    def __init__(self, module, optimizer):
        self.module, self.optimizer, self.outputs = module, optimizer, []

    def run_batch(self, x):
        output = self.module.training_step(x)
        self.optimizer.zero_grad()
        output["loss"].backward()
        self.optimizer.step()
        output["loss"] = output["loss"].item()
        self.outputs.append(output)


def main(probe):
    module = Module()
    fit = Fit(module, torch.optim.SGD(module.net.parameters(), lr=0.1, momentum=0.9))
    for _ in range(STEPS):
        fit.run_batch(batch(rows=64))
        probe.step()
