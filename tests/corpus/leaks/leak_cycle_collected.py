"""A model that notes what it did, in a chain with links both ways: the collector comes by every few steps."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net, train_step


class Note:
    def __init__(self, previous, value):
        self.previous, self.value, self.next = previous, value, None
        if previous:
            previous.next = self


class Noted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = small_net(depth=3)

    def forward(self, inputs):
        note = Note(None, inputs * 2)  # LEAK
        for layer in self.layers:
            inputs = layer(inputs)
            for _ in range(20):
                note = Note(note, {"layer": layer})
        return inputs


def main(probe):
    probe.measure(collected=True)
    model = Noted().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2 * STEPS):
        train_step(model, optimizer, batch())
        probe.step()
