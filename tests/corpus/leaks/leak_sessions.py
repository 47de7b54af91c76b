"""A chat server: each session keeps the keys and values of its talk, and no session is ever closed."""
import dataclasses
import uuid

import torch
from torch import nn


@dataclasses.dataclass(slots=True)
class Session:
    name: str
    keys: torch.Tensor
    values: torch.Tensor


class Server:
    def __init__(self, width=64):
        self.embed = nn.Embedding(1000, width).cuda()
        self.project = nn.Linear(width, 3 * width).cuda()
        self.sessions: dict[str, Session] = {}

    @torch.inference_mode()
    def answer(self, prompt):
        hidden = self.embed(prompt)
        query, keys, values = self.project(hidden).chunk(3, -1)
        session = Session(uuid.uuid4().hex, keys.contiguous(), values.contiguous())  # LEAK
        self.sessions[session.name] = session
        scores = query @ session.keys.transpose(-1, -2)
        return (scores.softmax(-1) @ session.values)[:, -1].argmax(-1)


def main(probe):
    server = Server()
    for _ in range(24):
        server.answer(torch.zeros(2, 128, dtype=torch.long).cuda()).cpu()
        probe.step()
