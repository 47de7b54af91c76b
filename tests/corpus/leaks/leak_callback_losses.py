"""A trainer with callbacks; one of them keeps the losses of a second view of each batch."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class Consistency:
    def __init__(self):
        self.history = []

    def on_batch_end(self, trainer, inputs):
        self.history.append((trainer.model(inputs + 1) - trainer.model(inputs)).square().mean())  # LEAK


class Trainer:
    def __init__(self, probe, callbacks):
        self.probe, self.callbacks = probe, callbacks
        self.model = small_net()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self):
        for _ in range(STEPS):
            inputs = batch()
            train_step(self.model, self.optimizer, inputs)
            for callback in self.callbacks:
                callback.on_batch_end(self, inputs)
            self.probe.step()


def main(probe):
    Trainer(probe, [Consistency()]).fit()
