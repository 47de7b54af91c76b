"""Trains a small transformer with AdamW under bf16 autocast: an ordinary script without any vramtrace code.

    vramtrace run examples/train.py [--steps N]
"""
import argparse
import time

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, vocabulary=8192, width=512, heads=8, layers=6):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=256)
    arguments = parser.parse_args()

    torch.backends.cuda.enable_cudnn_sdp(False)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    started = time.perf_counter()
    for _ in range(arguments.steps):
        tokens = torch.randint(0, 8192, (arguments.batch, arguments.length)).cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    print(f"{arguments.steps} steps, {seconds / max(arguments.steps, 1) * 1000:.1f} ms each")


if __name__ == "__main__":
    main()
