"""Metrics are tensors, in a dict of lists as Keras has it."""
import torch
import torch.nn.functional as F

from leak_truth import STEPS, batch, small_net


class History:
    def __init__(self):
        self.logs = {"loss": [], "prediction": []}

    def record(self, **values):
        for k, v in values.items():
            self.logs[k].append(v)


def main(probe):
    model, history = small_net(), History()
    opt = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        out = model(batch())  # LEAK
        loss = F.mse_loss(out, torch.zeros_like(out))
        loss.backward()
        opt.step()
        opt.zero_grad()
        history.record(loss=loss.item(), prediction=out.detach())
        probe.step()
