"""Many sequences that are answered at once, at length. Remedy: fewer at a time."""
import sys

import torch
from torch import nn

from oom_truth import watch

WIDTH, LAYERS = 1024, 6


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
together = 16 if "remedy" in sys.argv else 5120
with torch.inference_mode():
    for first in range(0, 5120, together):
        caches = [None] * LAYERS
        for token in range(30):
            x = torch.randn(together, 1, WIDTH).cuda()
            for i, block in enumerate(blocks):
                x, caches[i] = block(x, caches[i])
        if first == 32:
            break
