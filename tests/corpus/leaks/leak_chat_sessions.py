"""Each user gets a session with keys and values; nothing ever closes one."""
import dataclasses

import torch
from torch import nn

from leak_truth import STEPS


@dataclasses.dataclass
class Session:
    user: str
    keys: list
    values: list


class Bot:
    def __init__(self, layers=2, d=256):
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(layers)).cuda().eval()
        self.sessions = {}

    @torch.inference_mode()
    def chat(self, user, x):
        session = self.sessions.setdefault(user, Session(user, [], []))
        for layer in self.qkv:
            q, k, v = layer(x).chunk(3, -1)
            session.keys.append(k.contiguous())  # LEAK
            session.values.append(v.contiguous())  # LEAK
            x = torch.nn.functional.scaled_dot_product_attention(q, session.keys[-1], session.values[-1])
        return x[:, -1].cpu()


def main(probe):
    bot = Bot()
    for number in range(STEPS):
        bot.chat(f"user-{number}", torch.randn(2, 64, 256).cuda())
        probe.step()
