"""A server lays out pages for keys and values in nearly all that is free; then a prompt of many tokens comes."""
import sys

import torch
from torch import nn

from oom_truth import watch

PAGES = 150 if "remedy" in sys.argv else 340
WIDTH, LAYERS, TOKENS = 1024, 4, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))  # asks


def allocate_kv_cache():
    return [torch.empty(2, PAGES, TOKENS // 2, WIDTH, device="cuda") for _ in range(LAYERS)]


blocks = nn.Sequential(*(Block() for _ in range(LAYERS))).cuda().eval()
watch()
with torch.inference_mode():
    blocks(torch.randn(64, WIDTH, device="cuda"))
    pages = allocate_kv_cache()
    for tokens in (16, 64, 16, 8_000):
        blocks(torch.randn(tokens, WIDTH, device="cuda"))
