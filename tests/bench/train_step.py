"""Times the CPU-bound AMP step of examples/train.py; prints milliseconds (median of steps).

    train_step.py [--history python|all] [--steps 60]
"""
import argparse
import pathlib
import statistics
import sys
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from train import Model  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", choices=("python", "all"))
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    torch.backends.cuda.enable_cudnn_sdp(False)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    if arguments.history:
        torch.cuda.memory._record_memory_history(stacks=arguments.history, max_entries=4_000_000)
    times = []
    for _ in range(arguments.steps):
        started = time.perf_counter()
        tokens = torch.randint(0, 8192, (16, 256), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - started) * 1000)
    print(statistics.median(times[5:]))


if __name__ == "__main__":
    main()
