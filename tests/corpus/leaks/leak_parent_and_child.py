"""A trainer and its logger refer to each other, which makes a cycle; the logger's dict of losses by step grows while both are in use."""
import torch

from leak_truth import STEPS, batch, small_net


class Logger:
    def __init__(self, trainer):
        self.trainer, self.outputs = trainer, {}


class Trainer:
    def __init__(self):
        self.model, self.logger = small_net(), Logger(self)
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self, number):
        outputs = self.model(batch())  # LEAK
        self.logger.outputs[number] = outputs.detach()
        outputs.square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def main(probe):
    trainer = Trainer()
    for number in range(STEPS + 12):
        trainer.step(number)
        probe.step()
