#!/usr/bin/env python3
"""How the analyzer's time grows with the trace: tests/bench/growth.py [--sizes N,N...] [--markdown FILE]

Traces come from the build's tests/bench/grow: each is the worst case of one part of the analyzer (long.py measures traces as
recorded). Time is CPU time of the command, user and system. The exponent compares the last two sizes: 1 is linear, 2 quadratic.
"""
import argparse
import math
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, made_here  # noqa: E402
from helpers import PROGRAM as VRAMTRACE  # noqa: E402

GROW = BUILD / "tests/bench/grow"
SHAPES = ("evaluations", "forwards", "passes", "gradients", "gradients_kept", "groups", "holders", "names", "modules",
          "stacks", "refusals", "addresses", "views", "frees")
COMMANDS = {
    "report": ("report", "TRACE"),
    "report --json": ("report", "--json", "TRACE"),
    "leaks": ("leaks", "--json", "TRACE"),
    "steps": ("steps", "--json", "TRACE"),
    "oom": ("oom", "--json", "TRACE"),
    "frag": ("frag", "TRACE"),
    "timeline": ("timeline", "TRACE"),
    "html": ("html", "-o", "-", "TRACE"),
    "diff": ("diff", "TRACE@end", "TRACE@peak"),
    "annotate": ("annotate", "TRACE"),
    "export perfetto": ("export", "--format", "perfetto", "TRACE"),
    "export pprof": ("export", "--format", "pprof", "TRACE"),
    "export memory-viz": ("export", "--format", "memory-viz", "TRACE"),
    "export sqlite": ("export", "--format", "sqlite", "-o", "TRACE.sqlite", "TRACE"),
    "export csv": ("export", "--format", "csv", "--table", "allocations", "TRACE"),
    "info": ("info", "--verify", "TRACE"),
}
TOO_LONG_S = 60


def grow(shape, events, path):
    """Makes a trace; returns its number of events."""
    return int(subprocess.run([GROW, shape, str(events), path], check=True, capture_output=True, text=True).stdout)


def arguments_of(name, trace, program=VRAMTRACE):
    return [program, *(argument.replace("TRACE", str(trace)) for argument in COMMANDS[name])]


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (TOO_LONG_S, TOO_LONG_S + 1))


def cpu_seconds(name, trace, program):
    """CPU time of one command; None if it took too long. Status 1 is not a failure: checks and diffs exit with it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = subprocess.run(arguments_of(name, trace, program), stdout=subprocess.DEVNULL, preexec_fn=limit_cpu).returncode
    if code == -signal.SIGXCPU:
        return None
    if code not in (0, 1):
        sys.exit(f"growth.py: {name} of {trace} ended with {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(shape, sizes, options, folder):
    """command -> [(events, seconds)]"""
    found = {name: [] for name in options.commands}
    for size in sizes:
        trace = pathlib.Path(folder) / "grown.vrt"
        events = grow(shape, size, trace)
        for name, times in found.items():
            if not times or times[-1][1] is not None:
                times.append((events, cpu_seconds(name, trace, options.program)))
    return found


def exponent(times):
    known = [(events, seconds) for events, seconds in times if seconds]
    if len(known) < 2:
        return math.nan
    (small, before), (large, after) = known[-2:]
    return math.log(after / before) / math.log(large / small)


def row(shape, name, times, sizes):
    cells = [f"{seconds:.2f}" if seconds is not None else f"> {TOO_LONG_S}" for _, seconds in times]
    cells += ["–"] * (len(sizes) - len(cells))
    return f"| {shape} | {name} | " + " | ".join(cells) + f" | {exponent(times):.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="20000,80000,320000,1280000,2560000")
    parser.add_argument("--shapes", default="")
    parser.add_argument("--commands", default="")
    parser.add_argument("--program", type=pathlib.Path, default=VRAMTRACE)
    parser.add_argument("--markdown", type=pathlib.Path, help="file to write the table to")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    shapes = options.shapes.split(",") if options.shapes else SHAPES
    options.commands = options.commands.split(",") if options.commands else list(COMMANDS)
    lines = ["| trace | command | " + " | ".join(f"{size:,}" for size in sizes) + " | exponent |",
             "|---|---|" + "--:|" * (len(sizes) + 1)]
    print("\n".join(lines))
    with tempfile.TemporaryDirectory() as folder:
        for shape in shapes:
            for name, times in measure(shape, sizes, options, folder).items():
                lines.append(row(shape, name, times, sizes))
                print(lines[-1], flush=True)
    if options.markdown:
        command = f"tests/bench/growth.py --sizes {options.sizes} --markdown docs/results/growth.md"
        options.markdown.write_text("\n".join([made_here("How the analyzer's time grows: CPU seconds by number of events", command),
                                               *lines, ""]))


if __name__ == "__main__":
    main()
