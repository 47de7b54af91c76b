#!/usr/bin/env python3
"""Prints docs/results/dryrun-environments.md: programs under releases of PyTorch, CUDA and Python, with values and without.

    environments.py --sources DIR [--keep FOLDER] PYTHON...

PYTHON: of virtual environments, or other prefixes, with torch and numpy. DIR: as for programs.py. FOLDER keeps what was found in each
environment; rows are printed of those that are no longer there, too.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import programs  # noqa: E402
from helpers import made_here  # noqa: E402

VERSION = """
import glob, platform, sys, torch
laid = " (CUDA's libraries in PREFIX/lib)" if glob.glob(sys.prefix + "/lib/libcublas.so*") else ""
print(f"{torch.__version__}, Python {platform.python_version()}{laid}")
"""
PROGRAMS = ("gpt", "mixed", "nanogpt", "word_language_model_lstm")


def cell(row):
    """Allocated and reserved; what is not equal, in words."""
    if not row.on:
        return "not run"
    cells = row.cells()
    if row.on["status"]:
        return programs.last_error(row.runner.keep / row.program.name / "on" / "output") or f"ends with {row.on['status']}"
    unlike = [f"; {name}: {told}" for name, told in (("counters", cells[2]), ("values off", cells[3])) if not told.startswith("equal")]
    return f"{cells[0]} / {cells[1]}{''.join(unlike)}"


def environments(pythons, sources, keep):
    """Programs by environment."""
    wanted = [programs.read()[name] for name in PROGRAMS]
    for python in pythons:
        version = subprocess.run([python, "-c", VERSION], capture_output=True, text=True, check=True).stdout.strip()
        runner = programs.Runner(python, sources, keep / re.sub(r"\W+", "-", version).strip("-"))
        runner.keep.mkdir(parents=True, exist_ok=True)
        (runner.keep / "version").write_text(version)
        for program in wanted:
            programs.Row(runner, program).run_without()
    yield f"| PyTorch | {' | '.join(PROGRAMS)} |\n|---|{'--:|' * len(PROGRAMS)}"
    kept = {(path / "version").read_text(): path for path in keep.iterdir()}
    for version in sorted(kept, key=lambda version: [int(number) for number in re.findall(r"\d+", version)]):
        runner = programs.Runner(sys.executable, sources, kept[version], only_kept=True)
        yield f"| {version} | {' | '.join(cell(programs.Row(runner, program).run_without()) for program in wanted)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    parser.add_argument("--sources", type=pathlib.Path, metavar="DIR", required=True)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    print(made_here("Dry runs in other environments", "tests/dryrun/environments.py --sources DIR PYTHON..."))
    print("Programs that need only PyTorch, some of [other projects](dryrun-programs.md), on an A100 of 80 GB: bytes allocated and\n"
          "reserved. Each ran with and without values. Unless it is said, the trace's peaks are PyTorch's own counters, and each\n"
          "allocation and each free is the same with values and without. The prefix with CUDA's libraries in PREFIX/lib was made from\n"
          "PyPI's packages by `tests/dryrun/as_conda.sh`: conda's own packages were not tried.\n")
    with tempfile.TemporaryDirectory() as temporary:
        for line in environments(arguments.pythons, arguments.sources.resolve(), (arguments.keep or pathlib.Path(temporary)).resolve()):
            print(line, flush=True)


if __name__ == "__main__":
    main()
