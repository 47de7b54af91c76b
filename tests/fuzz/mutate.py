#!/usr/bin/env python3
"""Damages a trace in many ways; whatever is in a file, each command ends by itself with a status of its own.

    mutate.py TRACE [--count 200] [--seed 1]

Long form: build with `meson setup build-asan -Db_sanitize=address,undefined`, set VRAMTRACE_BUILD to it, and give
--count 20000. A status other than 0, 1 and 3, a signal, or more than 20 s is a failure; the file that made it is kept.
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", ROOT / "build")).resolve() / "analyzer" / "vramtrace"
COMMANDS = (["info", "--verify"], ["report"], ["report", "--json"], ["info", "--events", "--stacks"])
HEADER_BYTES, RING_SLOT_BYTES = 8192, 64


def flip(data, choose, start, end):
    for _ in range(choose.choice((1, 1, 1, 4, 32))):
        if end > start:
            data[choose.randrange(start, end)] = choose.choice((0, 1, 0x7f, 0x80, 0xff, choose.randrange(256)))


def mutate(original, choose):
    """Bits of the header, of the ring's records, of chunks; cuts; stretches doubled, zeroed or swapped."""
    data = bytearray(original)
    chunks = int.from_bytes(data[40:48], "little") or HEADER_BYTES
    kind = choose.randrange(7)
    if kind == 0:
        flip(data, choose, 0, 512)
    elif kind == 1:
        flip(data, choose, HEADER_BYTES, min(len(data), HEADER_BYTES + 4096 * RING_SLOT_BYTES))
    elif kind in (2, 3):
        flip(data, choose, min(chunks, len(data) - 1), len(data))
    elif kind == 4:
        del data[choose.randrange(len(data)):]
    elif kind == 5:
        at, size = choose.randrange(len(data)), choose.choice((8, 64, 512))
        data[at:at + size] = bytes(choose.choice((0, 0xff)) for _ in range(size))
    else:
        one, other = sorted(choose.randrange(len(data)) for _ in range(2))
        data[one:one + 64], data[other:other + 64] = data[other:other + 64], data[one:one + 64]
    return bytes(data)


def failure_of(path):
    for command in COMMANDS:
        try:
            done = subprocess.run([PROGRAM, *command, path], capture_output=True, timeout=20)
        except subprocess.TimeoutExpired:
            return f"{command}: still running after 20 s"
        if done.returncode not in (0, 1, 3):
            return f"{command}: status {done.returncode}\n{done.stderr.decode(errors='replace')[-2000:]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    choose = random.Random(arguments.seed)
    originals = [path.read_bytes() for path in arguments.traces]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "damaged.vrt"
        for number in range(arguments.count):
            path.write_bytes(mutate(choose.choice(originals), choose))
            failure = failure_of(path)
            if failure:
                kept = pathlib.Path(tempfile.gettempdir()) / f"damaged-{arguments.seed}-{number}.vrt"
                kept.write_bytes(path.read_bytes())
                print(f"{kept}: {failure}")
                failures += 1
    print(f"{arguments.count - failures} passed, {failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
