"""Times what a recorder may slow down; prints milliseconds and microseconds as JSON: cost.py [--recorder python|all] [--cpu-only]"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "bench"), str(HERE)]
import recorders  # noqa: E402
import work  # noqa: E402

PAIRS = 20000
WARM = 5


def milliseconds(step, times):
    spent = []
    for _ in range(WARM + times):
        started = time.perf_counter()
        step()
        torch.cuda.synchronize()
        spent.append((time.perf_counter() - started) * 1000)
    return statistics.median(spent[WARM:])


def gpu_bound():
    """Large matrix products, forward and backward: the card is never idle."""
    layers = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192, bias=False) for _ in range(4))).cuda().bfloat16()
    batch = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def step():
        layers(batch).sum().backward()
        layers.zero_grad()

    return milliseconds(step, 40)


def cpu_bound():
    """A small AMP step, whose kernels are shorter than what Python needs to launch them."""
    model, optimizer = work.amp_model()

    def step():
        work.amp_loss(model, rows=2).backward()
        optimizer.step()
        optimizer.zero_grad()

    return milliseconds(step, 40)


def descend(frames, call):
    return descend(frames - 1, call) if frames > 0 else call()


def pairs():
    """Alloc + free of one tensor under 20 Python frames: the mean, and of single pairs the median, 99 %, 99.9 %, most."""
    empty, device, clock = torch.empty, torch.device("cuda"), time.perf_counter_ns
    keep = empty(1024, device=device)

    def many():
        started = clock()
        for _ in range(PAIRS):
            tensor = empty(1024, device=device)
            del tensor
        return (clock() - started) / PAIRS / 1000

    def each():
        spent = []
        for _ in range(PAIRS):
            started = clock()
            tensor = empty(1024, device=device)
            del tensor
            spent.append(clock() - started)
        spent.sort()
        return [spent[int(PAIRS * share)] / 1000 for share in (0.5, 0.99, 0.999)] + [spent[-1] / 1000]

    descend(20, many)
    mean, (half, most, rare, longest) = descend(20, many), descend(20, each)
    del keep
    return {"alloc + free, µs": mean, "… median, µs": half, "… 99 %, µs": most, "… 99.9 %, µs": rare, "… longest, µs": longest}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--recorder", choices=recorders.NAMES)
    arguments = parser.parse_args()
    with recorders.start(arguments.recorder):
        found = {"CPU-bound AMP step, ms": cpu_bound(), **pairs()}
        if not os.environ.get("VRAMTRACE_RUN"):
            found["GPU-bound step, ms"] = gpu_bound()
    print(json.dumps(found))
