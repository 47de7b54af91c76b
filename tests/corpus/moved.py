#!/usr/bin/env python3
"""Which blocks of the corpus another build of the analyzer puts into another category, and which of the two is right.

    moved.py --before BUILD --keep FOLDER [NAME...] > docs/results/moved.md

BUILD is the build folder of another commit, with -Dtests=true. FOLDER holds traces and truths as rules.py leaves them. Both builds
read the same traces. Needs VRAMTRACE_BUILD and VRAMTRACE_PYTHON.
"""
import argparse
import collections
import concurrent.futures
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import table  # noqa: E402
from helpers import made_here, versions  # noqa: E402
from rules import all_names, read  # noqa: E402

TEXT = """The same traces, read by the analyzer of commit {before} and by this one. A program's *total moves* if the bytes of a category
differ by 0.1 % or more of the bytes of all its blocks. *MiB*: blocks times the part of the program's life during which they are alive.
*before*, *now*: of these, where only that answer is true. Where the truth allows both or neither, neither counts.
"""
MOVED = 0.001


def differences(program, before):
    """[(category before, now, rule now, weight, right before, right now)], and whether a category's total moved."""
    labels, other = program.labels(), program.labels(build=before)
    lives = program.truth.document["lives"]
    assert len(labels) == len(other) == len(lives), program.name
    end = 1 + max(max(begin, freed or 0) for _, _, begin, freed, _ in lives)
    found, totals = [], collections.Counter()
    for (number, _, begin, freed, _), (size, now, _, rule), (*_, was, _, _) in zip(lives, labels, other):
        if now != was:
            totals.update({now: int(size), was: -int(size)})
            weight = int(size) * ((end if freed is None else freed) - begin) / end
            found.append((was, now, rule, weight, *(program.truth.allows(number, c, program.inspected) for c in (was, now))))
    moves = max(map(abs, totals.values()), default=0) >= MOVED * sum(int(label[0]) for label in labels)
    return program.name, found, moves


def rows(results):
    """A row for each pair of categories and rule, largest first."""
    sums, programs = collections.defaultdict(lambda: [0, 0, 0]), collections.defaultdict(set)
    for name, found, _ in results:
        for was, now, rule, weight, right_before, right_now in found:
            both = right_before and right_now
            sums[was, now, rule][0] += weight
            sums[was, now, rule][1] += weight * (right_before and not both)
            sums[was, now, rule][2] += weight * (right_now and not both)
            programs[was, now, rule].add(name)
    yield "| before | now | because of the rule | programs | MiB | before | now |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for key, (weight, before, now) in sorted(sums.items(), key=lambda item: -item[1][0]):
        if weight >= 2**20 / 20:
            yield f"| {' | '.join(key)} | {len(programs[key])} | {weight / 2**20:.1f} | {before / 2**20:.1f} | {now / 2**20:.1f} |"


def worse(results):
    """Programs of which fewer bytes are right than before."""
    for name, found, _ in results:
        lost = sum(weight * (before - now) for *_, weight, before, now in found)
        if lost > 2**10:
            kinds = {f"{was} → {now} ({rule})" for was, now, rule, _, right_before, right_now in found if right_before and not right_now}
            yield f"| {name} | {lost / 2**20:.2f} | {', '.join(sorted(kinds))} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--before", type=pathlib.Path, metavar="BUILD", required=True)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", required=True)
    arguments = parser.parse_intermixed_args()
    commit = subprocess.run(["git", "-C", arguments.before, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    wanted = arguments.names or all_names()
    for mode, inspected in table.MODES.items():
        programs = [read(arguments.keep / mode, name, inspected) for name in wanted if (arguments.keep / mode / f"{name}.truth").exists()]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda program: differences(program, arguments.before), programs))
        if mode == next(iter(table.MODES)):
            print(made_here("What moved into another category", "tests/corpus/moved.py --before BUILD --keep FOLDER",
                            versions(programs[0].trace)))
            print(TEXT.format(before=commit.stdout.strip()))
        print(f"## {table.TITLES[mode]}\n\nA total moves in {sum(moves for *_, moves in results)} of {len(programs)} programs.\n")
        print(*rows(results), "", sep="\n")
        print("Programs with fewer bytes right than before:\n")
        print("| program | MiB | blocks |", "|---|--:|---|", *worse(results), "", sep="\n")


if __name__ == "__main__":
    main()
