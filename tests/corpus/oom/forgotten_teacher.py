"""A teacher of the first stage is still there in the second, which no longer asks it anything."""
import sys

import torch
from torch import nn

from oom_truth import watch


def mlp(width, depth):
    return nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]).cuda()


class Pipeline:
    def __init__(self):
        self.teacher, self.student = mlp(6144, 7).requires_grad_(False).eval(), mlp(1536, 3)

    def imitate(self):
        optimizer = torch.optim.SGD(self.student.parameters(), lr=0.1)
        for _ in range(5):
            x = torch.randn(128, 1536, device="cuda")
            with torch.no_grad():
                wanted = self.teacher(x.repeat(1, 4))[:, :1536]
            (self.student(x) - wanted).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    def finetune(self):
        optimizer = torch.optim.AdamW(self.student.parameters())
        for rows in (128, 128, 28672):
            hidden = torch.randn(rows, 1536, device="cuda")
            for layer in self.student:
                hidden = layer(hidden)  # asks
            hidden.mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            del hidden


watch()
pipeline = Pipeline()
pipeline.imitate()
if "remedy" in sys.argv:
    del pipeline.teacher
pipeline.finetune()
