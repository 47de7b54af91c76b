"""Times a step of a small model on the CPU, in a process with or without CUDA: for each line of input the milliseconds of a step.

    cpu_step.py [--session] [--steps 30]
"""
import argparse
import sys
import time

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", action="store_true", help="allocate on the card first, so that a trace is written")
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep = torch.empty(1024, device="cuda") if arguments.session else None
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16)) for _ in range(20)))
    inputs = torch.randn(4, 16)
    for _ in sys.stdin:
        started = time.perf_counter()
        for _ in range(arguments.steps):
            model(inputs).sum().backward()
            model.zero_grad()
        print((time.perf_counter() - started) / arguments.steps * 1000, flush=True)
    del keep


if __name__ == "__main__":
    main()
