"""Inference with a KV cache: a small GPT generates tokens one by one.

    vramtrace run examples/generate.py
"""
import argparse

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, past):
        rows, count, width = x.shape
        split = (part.view(rows, count, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        q, k, v = split
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        attended = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, count, width))
        return x + self.mlp(x), (k, v)


class Gpt(nn.Module):
    def __init__(self, words=8000, width=512, layers=6, heads=8):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, ids, past):
        x, present = self.embed(ids), []
        for layer, its_past in zip(self.layers, past):
            x, kept = layer(x, its_past)
            present.append(kept)
        return self.head(x[:, -1:]), present


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    arguments = parser.parse_args()
    model = Gpt().cuda().eval()
    past: list = [None] * len(model.layers)
    ids = torch.zeros(arguments.batch, 32, dtype=torch.long).cuda()  # the prompt
    for _ in range(arguments.tokens):
        logits, past = model(ids, past)
        ids = logits.argmax(-1)
    held = sum(part.untyped_storage().nbytes() for kept in past for part in kept)
    print(f"{arguments.tokens} tokens for {arguments.batch} sequences; the cache holds {held / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
