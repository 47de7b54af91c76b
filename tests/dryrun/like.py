#!/usr/bin/env python3
"""Prints docs/results/dryrun-like.md: programs of the corpus as recorded, and `dryrun --like` of that trace.

    like.py [--every N] [--keep FILE] [NAME...]      default: every 8th program; results in FILE are not repeated
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import dry
from helpers import ENVIRONMENT, PYTHON, made_here, run

CORPUS = dry.HERE.parent / "corpus"
sys.path.insert(0, str(CORPUS))
import catalogue  # noqa: E402
from judge import GPU_BYTES  # noqa: E402

NEAR = 1  # percent
SETTINGS = {"PYTHONPATH": f"{CORPUS}:{CORPUS.parent / 'torch'}"}
TOLD = re.compile(r"recorded: .* \(([+-][\d.]+) %\)")


def command(program, folder):
    return [PYTHON, program.path] if program.topic == "oom" else [PYTHON, CORPUS / "runner.py", "--alone", folder / "truth", program.name]


def peaks(trace):
    told = subprocess.run([dry.PROGRAM, "report", "--json", trace], capture_output=True, text=True, env=ENVIRONMENT)
    devices = json.loads(told.stdout)["devices"] if not told.returncode else []
    return [sum(size for name, size in device["peak"]["categories"].items() if name not in ("cached", "context")) for device in devices]


def compare(program):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        memory = {"VRAMTRACE_STANDIN_MEMORY": str(GPU_BYTES)} if program.topic == "oom" else {}
        ran = run(command(program, folder), trace=folder / "recorded.vrt", check=False, VRAMTRACE_STANDIN_GPU="l40s",
                  **memory, **SETTINGS)
        done = dry.dry(folder, [], "--like", folder / "recorded.vrt", **SETTINGS)
        recorded, here = peaks(folder / "recorded.vrt"), peaks(folder / "x.vrt")
    error = "" if recorded and here else (ran.stderr if not recorded else done.error).strip().splitlines()[-1][:100]
    told = TOLD.search(done.error)
    return {"name": program.name, "topic": program.topic, "error": error,
            "recorded": max(recorded, default=0), "here": max(here, default=0),
            "told": float(told[1]) if told else None, "ended": done.status == ran.returncode}


def page(rows):
    apart = {row["name"]: (row["here"] / row["recorded"] - 1) * 100 for row in rows if not row["error"]}
    assert all(abs(row["told"] - apart[row["name"]]) < 0.051 for row in rows if row["told"] is not None), "what it said is the difference"
    near = sum(abs(value) <= NEAR for value in apart.values())
    equal = sum(row["recorded"] == row["here"] for row in rows if not row["error"])
    yield f"Of {len(rows)} programs {near} are within {NEAR} %, {equal} of them equal to the byte.\n"
    yield "| program | recorded | here | | |\n|---|--:|--:|--:|---|"
    for row in sorted(rows, key=lambda row: (-abs(apart.get(row["name"], 1e9)), row["topic"], row["name"])):
        if row["error"] or row["recorded"] != row["here"]:
            cells = f"{row['topic']}/{row['name']}", f"{row['recorded']:,}", f"{row['here']:,}"
            difference = f"{apart[row['name']]:+.3f} %" if row["name"] in apart else ""
            yield f"| {' | '.join(cells)} | {difference} | {row['error'].replace('|', ' ')} |"
    yield "\nEqual: " + ", ".join(sorted(row["name"] for row in rows if not row["error"] and row["recorded"] == row["here"])) + "."


def measured(description, chosen, measure):
    """{name: what MEASURE says of CHOSEN(names, every)[name]}, by the command line's names; what --keep has is not measured again."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    keep = arguments.keep
    found = dict(map(json.loads, keep.read_text().splitlines())) if keep and keep.exists() else {}
    for name, item in chosen(arguments.names, arguments.every).items():
        if name not in found:
            found[name] = measure(item)
            print(name, found[name], file=sys.stderr)
            if keep:
                with open(keep, "a") as file:
                    print(json.dumps([name, found[name]]), file=file)
    return found


def programs(names, every):
    known = catalogue.read()
    return {name: known[name] for name in names or list(known)[::every]}


def main():
    found = measured(__doc__.split("\n")[0], programs, compare)
    print(made_here("Dry runs of what was recorded", "tests/dryrun/like.py"))
    print("Programs of `tests/corpus/` were recorded over a simulated L40S without values, to their end; then\n"
          "`vramtrace dryrun --like` ran each of them from its trace alone. Peaks in use, in bytes, of the GPU with the most.\n")
    print(*page(list(found.values())), sep="\n")


if __name__ == "__main__":
    main()
