"""A server remembers the keys and values of each prompt's beginning, to save the time of computing them again."""
import sys
from collections import OrderedDict

import torch
from torch import nn

from oom_truth import watch

LARGEST = 8 if "remedy" in sys.argv else 10_000


class Server:
    def __init__(self, layers=6, d=1024):
        self.layers = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(layers)).cuda().eval()
        self.prefix_cache = OrderedDict()

    @torch.no_grad()
    def prefill(self, name, x):
        if name not in self.prefix_cache:
            past_key_values = []
            for layer in self.layers:
                q, k, v = layer(x).chunk(3, -1)
                past_key_values.append((k.clone(), v.clone()))
                x = nn.functional.scaled_dot_product_attention(q, k, v)  # asks
            self.prefix_cache[name] = past_key_values
            if len(self.prefix_cache) > LARGEST:
                self.prefix_cache.popitem(last=False)
        return self.prefix_cache[name]


server = Server()
watch()
for request in range(60):
    server.prefill(f"system prompt {request}", torch.randn(1, 1280, 1024, device="cuda"))
