#!/usr/bin/env python3
"""Runs many trainings with children.py.

    runner.py FOLDER [--jobs N] [--inspect] NAME...

Writes FOLDER/NAME.truth, FOLDER/NAME.log, FOLDER/NAME.failed for a failed training and, under the recorder with
VRAMTRACE_OUT=FOLDER/%p.vrt, FOLDER/NAME.vrt. --inspect: the first mark of each name requests an inspection of live
objects; unrequested inspections get a share of the process's life, and these processes are short-lived. Exits with 1 if
a training failed; a training whose name begins with `killed` must be killed.
"""
import argparse
import functools
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import children  # noqa: E402
from zoo import catalogue, truth  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--inspect", action="store_true")
    arguments = parser.parse_intermixed_args()
    names, folder = arguments.names or list(catalogue.ALL), arguments.folder
    unknown = set(names) - set(catalogue.ALL)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    catalogue.import_packages(names)
    truth.Record.with_inspections = arguments.inspect
    jobs = {name: functools.partial(catalogue.run, name, str(folder / f"{name}.truth")) for name in names}
    codes = children.run(jobs, folder, arguments.jobs, functools.partial(print, flush=True))
    failed = [name for name, code in codes.items() if code != (-signal.SIGKILL if name.startswith("killed") else 0)]
    for name in failed:
        (folder / f"{name}.failed").write_text(
            f"ended with status {codes[name]}:\n" + (folder / f"{name}.log").read_text())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
