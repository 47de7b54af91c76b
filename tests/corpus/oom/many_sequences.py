"""A server's caches of keys and values fill the card: sessions are never closed."""
import sys

import torch
from torch import nn

from oom_truth import watch

REMEDY = "remedy" in sys.argv


class Attention(nn.Module):
    def __init__(self, d=1024):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, cache):
        q, k, v = self.qkv(x).chunk(3, -1)
        cache["k"] = torch.cat([cache["k"], k], 1) if "k" in cache else k.clone()  # asks
        cache["v"] = torch.cat([cache["v"], v], 1) if "v" in cache else v.clone()
        return self.out(q + cache["v"].mean(1, keepdim=True))


layers = nn.ModuleList([Attention() for _ in range(4)]).cuda().eval()
sessions = {}
watch()
with torch.inference_mode():
    for user in range(40):
        session = sessions[user] = [{} for _ in layers]
        x = torch.randn(4, 1024, 1024, device="cuda")
        for _ in range(3):
            for layer, cache in zip(layers, session):
                x = layer(x, cache)
            x = x[:, -1:]
        if REMEDY:
            del sessions[user], session
