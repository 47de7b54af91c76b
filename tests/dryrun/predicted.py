#!/usr/bin/env python3
"""Prints docs/results/dryrun-predicted.md: bytes that the report's advice predicts, and what a trial of it saves.

    predicted.py [--every N] [--keep FILE] [NAME...]     programs of the corpus (default: every 8th), and scripts of tests/torch/advice
"""
import json
import pathlib
import re
import subprocess
import tempfile

import dry
import like
from helpers import ENVIRONMENT, PYTHON, ROOT, made_here

NEAR = 0.05
ADVICE = ROOT / "tests" / "torch" / "advice"
SCRIPTS = {"scripts": ("checkpoints", "attention", "narrowing", "zero_grad", "zero_grad_autocast", "zero_grad_late", "no_grad", "optimizer",
                       "foreach", "in_place"), "losses": ("weights", "weights_crossed", "weights_evaluated")}
CHANGES = dict(re.findall(r'^VT_ADVICE\(\w+, "(\w+)", \w+, "([^"]+)"\)', (ROOT / "analyzer/findings/findings.def").read_text(), re.M))


def commands(names, every):
    """{name: command}"""
    programs = like.catalogue.read()
    scripts = {name: [PYTHON, ADVICE / f"{file}.py", name, "0"] for file, of_file in SCRIPTS.items() for name in of_file}
    wanted = names or [*scripts, *list(programs)[::every]]
    return {name: scripts.get(name) or like.command(programs[name], pathlib.Path("")) for name in wanted}


def advice(trace):
    """{kind: (bytes, change)}, of what a change follows."""
    told = subprocess.run([dry.PROGRAM, "report", "--json", trace], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    found = {}
    for device in json.loads(told.stdout)["devices"]:
        for one in device["advice"]:
            if one["kind"] in CHANGES:
                change = CHANGES[one["kind"]]
                found[one["kind"]] = one["bytes"], change + (one["where"] if change.endswith("=") else "")
    return found


def compare(command):
    with tempfile.TemporaryDirectory() as folder:
        folder, options = pathlib.Path(folder), ("--gpu", "l40s", "--batches", "0")
        first = dry.dry(folder, command, *options, **like.SETTINGS)
        found = advice(first.trace) if first.trace.exists() else {}
        if not found:
            return []
        tries = [word for _, change in found.values() for word in ("--try", change)]
        dry.dry(folder, command, *options, "--json", folder / "told", *tries, **like.SETTINGS)
        before, *trials = json.loads((folder / "told").read_text())["trials"]
    return [{"kind": kind, "change": change, "peak": before["peak_used_bytes"], "predicted": size, "note": trial["note"],
             "saved": before["peak_used_bytes"] - trial["peak_used_bytes"], "failed": trial["failed"]}
            for (kind, (size, change)), trial in zip(found.items(), trials)]


def page(found):
    rows = [(name, row) for name, of_name in found.items() for row in of_name]
    tried = [row for _, row in rows if not row["failed"] and "nothing" not in row["note"]]
    large = [row for row in tried if row["predicted"] >= NEAR * row["peak"]]
    near = [row for row in tried if abs(row["saved"] - row["predicted"]) <= NEAR * abs(row["predicted"])]
    yield (f"Of {len(tried)} that could be tried, in {len(found)} programs, {len(near)} are within {NEAR:.0%}; of those {len(large)} that "
           f"predict at least {NEAR:.0%} of the peak, {sum(row in near for row in large)}.\n")
    yield "| program | change | peak | predicted | saved | of the predicted | |\n|---|---|--:|--:|--:|--:|---|"
    for name, row in sorted(rows, key=lambda item: (item[1]["kind"], item[0])):
        share = f"{row['saved'] / row['predicted']:.1%}" if row["predicted"] and "nothing" not in row["note"] else ""
        numbers = " | ".join(f"{row[key]:,}" for key in ("peak", "predicted", "saved"))
        yield f"| {name} | `{row['change']}` | {numbers} | {share} | {'failed' if row['failed'] else row['note']} |"


def main():
    found = like.measured(__doc__.split("\n")[0], commands, compare)
    print(made_here("Predicted savings, and trials", "tests/dryrun/predicted.py"))
    print("The report predicts what an advice saves of the peak; `vramtrace dryrun --try` measures it. Bytes in use, simulated L40S.\n")
    print(*page({name: rows for name, rows in found.items() if rows}), sep="\n")


if __name__ == "__main__":
    main()
