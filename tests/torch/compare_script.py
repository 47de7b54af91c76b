#!/usr/bin/env python3
"""Several trainings, by children.py.

    compare_script.py FOLDER [NAME...]

FOLDER gets NAME.vrt and NAME.json for each run (all of RUNS without any NAME). The latter has the truth: what PyTorch's
counters said in each step, and what a layer holds by the sizes of its tensors. All tensors are small enough that the
allocator cuts blocks to the size that was asked for, to the next 512 bytes.
"""
import ctypes
import functools
import json
import pathlib
import sys
import time

import torch
from torch import nn

import children

WIDTH, ROWS, STEPS = 128, 32, 12


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden):
        return self.down(self.act(self.up(hidden)))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(WIDTH, 16)

    def forward(self, hidden):
        return self.out(hidden)


class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.head = Head()

    def forward(self, hidden):
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def rounded(tensors):
    return sum((tensor.nbytes + 511) // 512 * 512 for tensor in tensors)


def layer_bytes(optimizer):
    """What one Layer holds: by category, when its forward has run and when its backward has."""
    layer = Layer()
    parameters = rounded(layer.parameters())
    kept = rounded([torch.empty(ROWS, 4 * WIDTH), torch.empty(ROWS, 4 * WIDTH), torch.empty(ROWS, WIDTH)])
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer] * parameters
    return {
        "parameter": parameters,
        "optimizer_state": states,
        "activation": kept,
        "gradient": parameters,
    }


def load(name):
    """A function of the recorder's, or a stand-in that does nothing."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        return lambda name: None
    function.argtypes = [ctypes.c_char_p]
    return lambda name: function(name.encode())


def train(layers=3, optimizer="adam", rows=lambda step: ROWS, slow=None, leak=0):
    mark, look = load("vramtrace_mark"), load("vramtrace_inspect")
    model = Model(layers).cuda()
    chosen = {
        "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.01),
        "momentum": lambda: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        "adam": lambda: torch.optim.Adam(model.parameters(), lr=0.01),
    }[optimizer]()
    kept, steps, longest = [], [], 0.0
    for step in range(STEPS):
        began = time.monotonic()
        torch.cuda.reset_peak_memory_stats()
        batch = torch.zeros(rows(step), WIDTH, device="cuda")
        loss = model(batch).square().mean()
        if leak:
            kept.append(torch.zeros(leak, dtype=torch.uint8, device="cuda"))
        mark("fwd")
        forward = torch.cuda.memory_allocated()
        loss.backward()
        mark("bwd")
        backward = torch.cuda.memory_allocated()
        chosen.step()
        if step < 2:
            look("stepped")
        chosen.zero_grad()
        del loss, batch
        if step > 1:
            longest = max(longest, time.monotonic() - began)
        if step == slow:
            time.sleep(max(0.4, 20 * longest))
        steps.append({"peak": torch.cuda.max_memory_allocated(), "end": torch.cuda.memory_allocated(),
                      "reserved": torch.cuda.memory_reserved(), "forward": forward, "backward": backward})
    return {"steps": steps, "layer": layer_bytes(optimizer)}


RUNS = {
    "three": lambda: train(3),
    "three_again": lambda: train(3),
    "four": lambda: train(4),
    "momentum": lambda: train(3, "momentum"),
    # a step with 64 times the rows, a slow one, otherwise alike
    "uneven": lambda: train(3, rows=lambda step: 64 * ROWS if step == 7 else ROWS, slow=9),
    "leaking": lambda: train(3, leak=65536),
}


def run(name, folder):
    (folder / f"{name}.json").write_text(json.dumps(RUNS[name]()))


def main():
    folder = pathlib.Path(sys.argv[1])
    codes = children.run({name: functools.partial(run, name, folder) for name in sys.argv[2:] or RUNS}, folder, at_once=1)
    sys.exit(", ".join(f"{name} failed" for name, code in codes.items() if code) or 0)


main()
