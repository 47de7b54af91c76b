"""Sessions with keys and values; the one that waited longest goes when a fifth comes."""
from collections import OrderedDict

import torch
from torch import nn

from leak_truth import STEPS


class Bot:
    def __init__(self, d=256):
        self.qkv = nn.Linear(d, 3 * d).cuda().eval()
        self.sessions = OrderedDict()

    @torch.no_grad()
    def chat(self, user, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.sessions[user] = (k.contiguous(), v.contiguous())
        self.sessions.move_to_end(user)
        if len(self.sessions) > 4:
            self.sessions.popitem(last=False)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).sum().item()


def main(probe):
    bot = Bot()
    for number in range(STEPS):
        bot.chat(f"user-{number}", torch.randn(2, 64, 256).cuda())
        probe.step()
