#!/usr/bin/env python3
"""Trains a compiled model, and writes for each block that is alive after forward which of the script's lines its code was
written for, as PyTorch's own history and its compiler's own map say.

    written_script.py TRUTH
"""
import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional

import models
import train_script


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.gate, self.down = (nn.Linear(width, width) for _ in range(3))

    def forward(self, hidden):
        normed = self.norm(hidden)
        gated = functional.silu(self.gate(normed)) * self.up(normed)
        return hidden + self.down(gated)


class Net(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.blocks = nn.Sequential(Gated(width), Gated(width))
        self.head = nn.Linear(width, 64)

    def forward(self, inputs):
        hidden = inputs
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def expected_lines(written_for):
    """{address: [file, line, function]} of blocks whose innermost Python frame is in written code."""
    lines = {}
    for segment in torch.cuda.memory_snapshot():
        for block in segment["blocks"]:
            frames = [frame for frame in block.get("frames", ()) if frame["filename"].endswith(".py")]
            if block["state"] != "active_allocated" or not frames:
                continue
            behind = written_for(frames[0]["filename"], frames[0]["line"])
            if behind:
                lines[block["address"]] = [behind[0][key] for key in ("filename", "line", "name")]
    return lines


def main():
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = sys.argv[1] + ".inductor"
    from torch._inductor import config
    from torch._inductor.codecache import PyCodeCache

    config.compile_threads = 1
    models.settings()
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python")
    inspect, truth = train_script.load_mark("vramtrace_inspect"), {}
    model = Net().cuda()
    compiled, optimizer = torch.compile(model), torch.optim.SGD(model.parameters(), 0.1)
    for step in range(2):
        loss = compiled(torch.randn(256, 512, device="cuda")).square().mean()
        truth[f"forward#{step + 1}"] = expected_lines(PyCodeCache.stack_frames_for_code)
        inspect("forward")
        loss.backward()
        truth[f"backward#{step + 1}"] = expected_lines(PyCodeCache.stack_frames_for_code)
        inspect("backward")
        optimizer.step()
        optimizer.zero_grad()
    with open(sys.argv[1], "w") as out:
        json.dump(truth, out)


main()
