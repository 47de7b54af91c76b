#!/usr/bin/env python3
"""For each rule: where it labels blocks of the corpus, whether that is true, and which programs need it.

    rules.py [--keep FOLDER] [--rules FILE] [NAME...] > docs/results/rules.md

A program needs a rule if without it the share of its bytes that are right falls by 0.1 % or more; it is better off without if that
share rises by as much. Bytes are those of a block times the part of the program's events during which it is alive. What the truth
never shows may have been anything, and is left out unless it is called temporary, activation or unknown. Held out: programs that were
written without a look at the rules (programs.md, "Sets"). --keep: takes the traces from there if they are there, else leaves them
there. --rules: judge with these rules before the built-in ones. Needs VRAMTRACE_BUILD, VRAMTRACE_PYTHON and VRAMTRACE_RUN.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import catalogue  # noqa: E402
import judge  # noqa: E402
import table  # noqa: E402
from helpers import BUILD, ENVIRONMENT, ROOT, made_here, versions  # noqa: E402

CHANGE = 0.001
TEXT = """MiB: a block's size times the part of the program's life during which it is alive, summed over the programs. A program *needs* a
rule if without it 0.1 % or more of its bytes are no longer right. Held out: programs that were written without a look at the rules.
"""
RULE = re.compile(r"^rule (\S+)\n +(\w+) (\w+)", re.MULTILINE)


@dataclasses.dataclass
class Traced:
    name: str
    trace: pathlib.Path
    truth: judge.Truth
    inspected: bool

    def labels(self, rules=None, build=BUILD):
        """[(bytes, category, evidence, rule)] of the blocks, by their numbers from 1 on."""
        listed = subprocess.run([pathlib.Path(build) / "tests/torch/list_blocks", self.trace, "labels", *([rules] if rules else [])],
                                env=ENVIRONMENT, capture_output=True, text=True, check=True)
        return [line.split("\t") for line in listed.stdout.splitlines()]

    def judged(self, rules=None):
        """[(rule, bytes, whether they are right)] of the blocks."""
        labels, lives = self.labels(rules), self.truth.document["lives"]
        assert len(labels) == len(lives), f"{self.name}: not the blocks that PyTorch has"
        end = 1 + max(max(begin, freed or 0) for _, _, begin, freed, _ in lives)
        seen = {number for mark in self.truth.marks for number, _, _ in mark["blocks"]}
        return [(rule, int(size) * ((end if freed is None else freed) - begin) / end, self.truth.allows(number, category, self.inspected))
                for (number, _, begin, freed, true), (size, category, _, rule) in zip(lives, labels)
                if number in seen or true not in ("", "temporary") or category in ("activation", "temporary", "unknown")]


def share_of_right(judged):
    return sum(weight for _, weight, right in judged if right) / sum(weight for _, weight, _ in judged)


def read(folder, name, inspected):
    return Traced(name, folder / f"{name}.vrt", judge.Truth(judge.truth_of(folder, name)), inspected)


def without(rule, rules, folder):
    """Makes a file of rules that has no RULE any more."""
    (folder / f"{rule}.rules").write_text((rules.read_text() if rules else "") + f"\nrule {rule}\n")


def traced(folder, names, inspected):
    """The programs, with traces that are made if they are not in FOLDER."""
    missing = [name for name in names if not (folder / f"{name}.truth").exists()]
    if missing:
        table.train(folder, inspected, missing)
    return [read(folder, name, inspected) for name in names]


@dataclasses.dataclass
class Use:
    right: float = 0
    wrong: float = 0
    programs: set = dataclasses.field(default_factory=set)
    needed_by: set = dataclasses.field(default_factory=set)
    better_without: set = dataclasses.field(default_factory=set)


def examine(program, rules, folder, known):
    """{rule: its Use} in this program."""
    judged, uses = program.judged(rules), collections.defaultdict(Use)
    for rule, weight, right in judged:
        use = uses[rule]
        use.programs.add(program.name)
        use.right += weight if right else 0
        use.wrong += 0 if right else weight
    share = share_of_right(judged)
    for rule in known & uses.keys():
        other = share_of_right(program.judged(folder / f"{rule}.rules"))
        if share - other >= CHANGE:
            uses[rule].needed_by.add(program.name)
        elif other - share >= CHANGE:
            uses[rule].better_without.add(program.name)
    return share, uses


def count(names):
    """Programs, and how many of them were held out."""
    held_out = sum(catalogue.read()[name].set != "" for name in names)
    return f"{len(names)} ({held_out})" if names else "–"


def rows(uses, table_of_rules):
    yield "| rule | gives | programs (held out) | MiB right | wrong | needed by | better without |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for name, category, evidence in table_of_rules:
        use = uses[name]
        yield (f"| {name} | {category}, {evidence} | {count(use.programs)} | {use.right / 2**20:.1f} | {use.wrong / 2**20:.1f} | "
               f"{count(use.needed_by)} | {count(use.better_without)} |")


def uses_of(programs, rules, names, temporary):
    """{rule: its Use in all programs}, and how many programs are right."""
    uses = collections.defaultdict(Use)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda program: examine(program, rules, temporary, names), programs))
    for _, own in found:
        for rule, use in own.items():
            uses[rule].right += use.right
            uses[rule].wrong += use.wrong
            for field in ("programs", "needed_by", "better_without"):
                getattr(uses[rule], field).update(getattr(use, field))
    return uses, sum(share >= table.RIGHT for share, _ in found)


def all_names():
    return [name for group in ("", *catalogue.SETS) for name in catalogue.names(*catalogue.CATEGORIES, held_out=group)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--rules", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_intermixed_args()
    wanted = arguments.names or all_names()
    table_of_rules = RULE.findall((ROOT / "analyzer/attribute/rules.def").read_text())
    with tempfile.TemporaryDirectory() as folder:
        temporary = pathlib.Path(folder)
        for rule, _, _ in table_of_rules:
            without(rule, arguments.rules, temporary)
        tables = {mode: traced((arguments.keep or temporary) / mode, wanted, inspected) for mode, inspected in table.MODES.items()}
        print(made_here("Rules: where they are right, and who needs them", "tests/corpus/rules.py > docs/results/rules.md",
                        versions(tables["rules"][0].trace)))
        print(TEXT)
        for mode, programs in tables.items():
            uses, right = uses_of(programs, arguments.rules, {rule for rule, _, _ in table_of_rules}, temporary)
            print(f"## {table.TITLES[mode]}\n\n{right} of {len(programs)} programs are right to 99.9 %.\n")
            print(*rows(uses, table_of_rules), "", sep="\n")


if __name__ == "__main__":
    main()
