#!/usr/bin/env python3
"""Runs many trainings by children.py.

    runner.py FOLDER [--jobs N] [--looks] NAME...

Leaves FOLDER/NAME.truth, FOLDER/NAME.log, FOLDER/NAME.failed of one that failed and, under the shim with
VRAMTRACE_OUT=FOLDER/%p.vrt, FOLDER/NAME.vrt. --looks: the first mark of each name asks for a look at live objects,
since what looks may cost unasked is a share of the process's life, and these lives are short. Exits with 1 if a training
failed; one whose name begins with `killed` has to be killed.
"""
import argparse
import functools
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import children  # noqa: E402
from zoo import catalogue, real, truth  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--looks", action="store_true")
    arguments = parser.parse_intermixed_args()
    names, folder = arguments.names or list(catalogue.ALL), arguments.folder
    unknown = set(names) - set(catalogue.ALL)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if set(names) & set(real.REAL):
        real.imported()
    truth.Record.with_looks = arguments.looks
    jobs = {name: functools.partial(catalogue.run, name, str(folder / f"{name}.truth")) for name in names}
    codes = children.run(jobs, folder, arguments.jobs, functools.partial(print, flush=True))
    failed = [name for name, code in codes.items() if code != (-signal.SIGKILL if name.startswith("killed") else 0)]
    for name in failed:
        (folder / f"{name}.failed").write_text(
            f"ended with status {codes[name]}:\n" + (folder / f"{name}.log").read_text())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
