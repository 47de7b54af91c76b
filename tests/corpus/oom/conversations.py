"""A server that keeps the keys and values of every conversation. Remedy: the eldest give way."""
import sys

import torch
from torch import nn

from oom_truth import watch

WIDTH, LAYERS, TOKENS = 1024, 2, 3072


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, past):
        q, k, v = self.qkv(x).chunk(3, -1)
        past = [k, v] if past is None else [torch.cat([old, new], 1) for old, new in zip(past, (k, v))]
        return x + self.out((q @ past[0].transpose(1, 2)).softmax(-1) @ past[1]), past  # asks


blocks = nn.ModuleList(Block() for _ in range(LAYERS)).cuda().eval()
watch()
conversations = {}
with torch.inference_mode():
    for turn in range(30):
        caches = [None] * LAYERS
        for tokens in (TOKENS, TOKENS):
            x = torch.randn(1, tokens, WIDTH).cuda()
            for i, block in enumerate(blocks):
                x, caches[i] = block(x, caches[i])
        conversations[turn] = caches
        if "remedy" in sys.argv and len(conversations) > 4:
            del conversations[turn - 4]
