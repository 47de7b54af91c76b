"""A recurrent state that is not detached between steps: each backward walks all steps, with retain_graph=True."""
import torch
from torch import nn

from leak_truth import STEPS, batch


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.take, self.keep = nn.Linear(256, 256), nn.Linear(256, 256)

    def forward(self, inputs, state):
        return torch.tanh(self.take(inputs) + self.keep(state))  # LEAK


def main(probe):
    cell = Cell().cuda()
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.0)
    state = torch.zeros(32, 256, device="cuda")
    for _ in range(STEPS):
        state = cell(batch(), state)
        loss = state.square().mean()
        loss.backward(retain_graph=True, inputs=list(cell.parameters()))
        optimizer.zero_grad()
        probe.step()
