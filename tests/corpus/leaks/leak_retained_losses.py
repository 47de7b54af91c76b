"""Losses of a recurrent net go back with retain_graph=True, and stay in a list for a plot."""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(48, 96)
        self.out = nn.Linear(96, 12)

    def forward(self, sequence):
        state = sequence.new_zeros(sequence.shape[1], 96)
        for x in sequence:
            state = self.cell(x, state)  # LEAK
        return self.out(state)


def train(model, steps, after_step):
    optimizer = torch.optim.Adagrad(model.parameters())
    losses = []
    for _ in range(steps):
        sequence = torch.randn(6, 20, 48, device="cuda")
        loss = model(sequence).var()
        losses.append(loss)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        after_step()
    return [float(loss) for loss in losses]


def main(probe):
    train(Tagger().cuda(), 20, probe.step)
