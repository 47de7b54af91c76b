"""Sequences of many lengths, a few longer than all before."""
import torch
from torch import nn

from leak_truth import STEPS

LENGTHS = (16, 40, 24, 64, 56, 72, 32, 88, 48, 96, 80, 128)


def main(probe):
    model = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(STEPS + 6):
        inputs = torch.randn(8, LENGTHS[step % len(LENGTHS)], 128).cuda()
        outputs = model(inputs)
        loss = outputs.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
