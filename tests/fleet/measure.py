#!/usr/bin/env python3
"""How long examples/fleet takes, and what memory, by number of workers: measure.py TRACES [PAUSE]

TRACES as corpus.py makes them. PAUSE: seconds that each trace waits besides, as a store would make it wait. Times in seconds: wall, then
CPU of all processes; memory: of the largest process. VRAMTRACE_READERS and what tests/helpers.py says are set.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PROGRAM, ROOT  # noqa: E402

WATCHED = ("import resource, subprocess, sys; status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL); "
           "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(status, used.ru_utime + used.ru_stime, used.ru_maxrss)")


def main():
    traces, pause = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0
    print("| workers | wall s | CPU s | MiB |\n|--:|--:|--:|--:|")
    for workers in (0, 1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "vramtrace")
            program.write_text(f'#!/bin/sh\nsleep {pause}\nexec {PROGRAM} "$@"\n')
            program.chmod(0o755)
            begin = time.monotonic()
            told = subprocess.check_output(
                [os.environ["VRAMTRACE_READERS"], "-c", WATCHED, os.environ["VRAMTRACE_READERS"], ROOT / "examples" / "fleet" / "fleet.py",
                 "-o", f"{folder}/tables", "--workers", str(workers), "--part", "8", traces], text=True,
                env={**os.environ, "VRAMTRACE": str(program if pause else PROGRAM), "PYTHONPATH": str(ROOT / "python")})
            status, cpu, kib = told.split()
            assert status in "01", told
            print(f"| {workers or 'no Dask'} | {time.monotonic() - begin:.1f} | {float(cpu):.1f} | {int(kib) >> 10} |", flush=True)


main()
