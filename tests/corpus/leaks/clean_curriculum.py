"""Sequences get longer by a schedule; the last outputs stay for the log, and the mask is made anew for each length."""
import torch
from torch import nn

from leak_truth import STEPS


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 64)
        self.layer = nn.TransformerEncoderLayer(64, 2, 128, dropout=0, batch_first=True)
        self.mask = None

    def forward(self, tokens):
        length = tokens.shape[1]
        if self.mask is None or self.mask.shape[0] < length:
            self.mask = torch.full((length, length), float("-inf"), device="cuda").triu(1)
        return self.layer(self.embed(tokens), src_mask=self.mask[:length, :length])


def main(probe):
    reader = Reader().cuda()
    optimizer = torch.optim.AdamW(reader.parameters())
    last = {}
    for step in range(STEPS):
        tokens = torch.zeros(4, 16 + 8 * step, dtype=torch.long, device="cuda")
        last["outputs"] = reader(tokens)
        last["loss"] = last["outputs"].mean()
        last["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
