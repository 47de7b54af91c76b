"""Times a step of a small model on the CPU, in a process with or without CUDA; prints milliseconds (median of steps).

    cpu_step.py [--session] [--steps 600]
"""
import argparse
import statistics
import time

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", action="store_true", help="allocate on the card first, so that a trace is written")
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep = torch.empty(1024, device="cuda") if arguments.session else None
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16)) for _ in range(20)))
    inputs = torch.randn(4, 16)
    times = []
    for _ in range(arguments.steps):
        started = time.perf_counter()
        model(inputs).sum().backward()
        model.zero_grad()
        times.append((time.perf_counter() - started) * 1000)
    print(statistics.median(times[20:]))
    del keep


if __name__ == "__main__":
    main()
