"""Outputs with their graphs are gathered through an epoch of seven steps and cleared at its end, as Lightning asks for."""
import torch
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(60, 60), nn.Tanh(), nn.Linear(60, 4))
        self.outputs = []

    def training_step(self, inputs):
        loss = self.net(inputs).square().mean()
        self.outputs.append(loss)
        return loss

    def on_epoch_end(self):
        mean = torch.stack(self.outputs).mean().item()
        self.outputs.clear()
        return mean


def main(probe):
    module = Module().cuda()
    optimizer = torch.optim.Adam(module.parameters())
    for _ in range(3):
        for _ in range(7):
            loss = module.training_step(torch.randn(25, 60, device="cuda"))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            probe.step()
        module.on_epoch_end()
