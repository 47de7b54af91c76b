"""Times alloc + free of one tensor at the bottom of a chain of Python frames: for each line of input one round, whose
microseconds per pair it prints.

    one_tensor.py [--recorder python|all|profiler] [--frames 23] [--pairs 5000]

--counted: instead, valgrind --tool=callgrind --instr-atstart=no counts the instructions of these pairs (instructions.py).
"""
import argparse
import contextlib
import sys
import time

import recorders
import torch


def descend(frames, pairs, watched=contextlib.nullcontext):
    if frames > 1:
        return descend(frames - 1, pairs, watched)
    empty, device = torch.empty, torch.device("cuda")
    with watched():
        started = time.perf_counter()
        for _ in range(pairs):
            tensor = empty(1024, device=device)
            del tensor
        return (time.perf_counter() - started) / pairs * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--recorder", choices=recorders.NAMES)
    parser.add_argument("--frames", type=int, default=23)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--counted", action="store_true")
    arguments = parser.parse_args()
    keep = torch.empty(1024, device="cuda")  # keeps the segment
    with recorders.start(arguments.recorder):
        descend(arguments.frames, 2000)
        # main() and the module are frames too
        watched = recorders.counted if arguments.counted else contextlib.nullcontext
        for _ in sys.stdin:
            print(descend(arguments.frames - 2, arguments.pairs, watched), flush=True)
    del keep


if __name__ == "__main__":
    main()
