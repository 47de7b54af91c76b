"""A callback remembers the logs of each batch for a plot; the logs have the predictions in them."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net


class Callback:
    def on_batch_end(self, step, logs):
        pass


class History(Callback):
    def __init__(self):
        self.records = []

    def on_batch_end(self, step, logs):
        self.records.append({"step": step, **logs})


class Speed(Callback):
    def on_batch_end(self, step, logs):
        self.last = step


def fit(model, loader, optimizer, callbacks, probe):
    for step, x in enumerate(loader):
        y_pred = model(x)  # LEAK
        loss = nn.functional.mse_loss(y_pred, torch.zeros_like(y_pred))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        for callback in callbacks:
            callback.on_batch_end(step, {"loss": float(loss), "y_pred": y_pred})
        probe.step()


def main(probe):
    model = small_net(out=128)
    fit(model, (batch(rows=96) for _ in range(STEPS)), torch.optim.SGD(model.parameters(), 0.01), [Speed(), History()], probe)
