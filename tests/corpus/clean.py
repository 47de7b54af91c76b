#!/usr/bin/env python3
"""Runs the programs that do not leak, alone and beside four busy loops, and prints what was found in them.

    clean.py [--times 3] [NAME]... > docs/results/clean.md

Default: those of all sets. Needs VRAMTRACE_BUILD, VRAMTRACE_PYTHON and VRAMTRACE_RUN, like all tests (tests/helpers.py).
"""
import argparse
import collections
import contextlib
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import catalogue  # noqa: E402
import judge  # noqa: E402
from helpers import made_here, versions  # noqa: E402

LOOPS = 4
# Growth that is no fault: a tensor that is meant to grow, and reserved memory that follows the peak.
HARMLESS = ("growing tensor", "cache growth")


@contextlib.contextmanager
def busy(loops):
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
            loop.wait()


def outcome(folder, name):
    """"no leak", "cannot tell", or what was found."""
    device = judge.answer_of(folder, name)["devices"][0]
    allowed = (*HARMLESS, catalogue.read()[name].expected.get("growth"))
    false = [item["verdict"] for item in device["leaks"] if item["leak"] or item["verdict"] not in allowed]
    return ", ".join(false) or ("no leak" if device["leaks_judged"] else "cannot tell")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    clean = [name for number in ("", *catalogue.SETS) for name in catalogue.names("leaks", held_out=number)
             if not catalogue.read()[name].verdicts()]
    parser.add_argument("names", nargs="*", choices=[*clean, []], metavar="NAME")
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    names, rows, trace = arguments.names or clean, [], None
    with tempfile.TemporaryDirectory() as temporary:
        for loops in (0, LOOPS):
            for time in range(1, arguments.times + 1):
                folder = pathlib.Path(temporary) / f"{loops}.{time}"
                with busy(loops):
                    judge.run(folder, names)
                told = {name: outcome(folder, name) for name in names}
                counts = collections.Counter(text if text in ("no leak", "cannot tell") else "false" for text in told.values())
                others = "; ".join(f"{name}: {text}" for name, text in told.items() if text != "no leak")
                rows.append(f"| {loops} | {time} | {counts['no leak']} | {counts['cannot tell']} | {counts['false']} | {others} |")
                print(rows[-1], file=sys.stderr)
                trace = folder / f"{names[0]}.vrt"
        print(made_here("Programs that do not leak", "tests/corpus/clean.py > docs/results/clean.md", versions(trace)))
        print("*false*: a leak, a cycle, fragmentation or many streams were found, and there is none.\n")
        print("| busy loops | run | no leak | cannot tell | false | which |\n|--:|--:|--:|--:|--:|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
