#!/usr/bin/env python3
"""Runs the programs with known findings and prints a table for each kind: how many are right, and the bytes said and measured.

    findings.py [--keep FOLDER] [leaks] [oom] [advice] > docs/results/findings.md

Default: all three. Needs VRAMTRACE_BUILD, VRAMTRACE_PYTHON and VRAMTRACE_RUN, like all tests (tests/helpers.py).
"""
import argparse
import collections
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "torch"), str(HERE.parent), str(HERE)]

import catalogue  # noqa: E402
import judge  # noqa: E402
import test_advice  # noqa: E402
from helpers import made_here, versions  # noqa: E402

ABOUT = """*right*: what was said is the truth that the program records itself, and its bytes are near the measured ones.
*observed*: what is there was said with its bytes and line, but no cause, or that it cannot be judged. *wrong*: anything else, also a
finding that is missing or that is none. *said*, *measured*: bytes of those that are right, added up.
"""
HEAD = "| kind | programs | right | observed | wrong | said | measured | |\n|---|--:|--:|--:|--:|--:|--:|---|"
OUTCOMES = ("right", "observed", "wrong")


class Table:
    """Rows by kind of finding."""

    def __init__(self):
        self.names = collections.defaultdict(lambda: {outcome: [] for outcome in OUTCOMES})
        self.bytes = collections.defaultdict(lambda: [0, 0])

    def add(self, kind, name, outcome, said=0, measured=0):
        self.names[kind][outcome].append(name)
        if outcome == "right":
            self.bytes[kind] = [self.bytes[kind][0] + said, self.bytes[kind][1] + measured]

    def lines(self):
        yield HEAD
        for kind, names in sorted(self.names.items()):
            counts = [len(names[outcome]) for outcome in OUTCOMES]
            said, measured = (f"{bytes:,.0f}" if bytes else "–" for bytes in self.bytes[kind])
            others = "; ".join(f"{outcome}: {', '.join(names[outcome])}" for outcome in OUTCOMES[1:] if names[outcome])
            yield f"| {kind} | {sum(counts)} | {' | '.join(map(str, counts))} | {said} | {measured} | {others} |"


def leak_outcome(errors, leaks):
    if not errors:
        return "right"
    unjudged = errors.get("found") == "not judged"
    unnamed = set(errors) == {"holder"} and not leaks[0]["holder"]
    return "observed" if unjudged or unnamed else "wrong"


def leaks(folder):
    table, names = Table(), catalogue.names("leaks")
    judge.run(folder, names)
    for name in names:
        program, truth, answer = catalogue.read()[name], judge.truth_of(folder, name), judge.answer_of(folder, name)
        found = judge.leaks_of(answer)
        errors = {**judge.judge_leak(name, truth, answer), **judge.judge_holder(name, answer)}
        kind = " / ".join(program.verdicts()) or "no leak"
        table.add(kind, name, leak_outcome(errors, found), sum(leak["bytes_per_step"] for leak in found),
                  truth["bytes_per_step"] if program.verdicts() else 0)
    return table, folder / f"{names[0]}.vrt"


def oom(folder):
    """Said: what the first cause explains; measured is nothing but that the request is met once it is followed, which test_oom.py tries."""
    table = Table()
    names = [name for name in catalogue.names("oom") if not {"cause", "cause contains"}.isdisjoint(catalogue.read()[name].expected)]
    codes = judge.run_oom(folder, names, names)
    for name in names:
        errors, cause = judge.judge_oom(folder, name, codes)
        observed = cause.get("kind") == "unknown_use"
        table.add(catalogue.read()[name].expected.get("cause", "named in words"), name,
                  "right" if not errors else "observed" if observed else "wrong", cause.get("bytes", 0))
    return table, folder / f"{names[0]}.vrt"


def advice(folder):
    table, runs = Table(), []
    for follow in (0, 1):
        (folder / str(follow)).mkdir(parents=True, exist_ok=True)
        runs.append(test_advice.run_scripts(folder / str(follow), follow, "1"))
    before, after = runs
    known_wrong = {name: kind for names in test_advice.KNOWN_WRONG.values() for name, kind in names.items()}
    for name, kind in {**test_advice.KINDS, **known_wrong}.items():
        fell = before[name][1]["peak"] - after[name][1]["peak"]
        said = sum(item["bytes"] for item in test_advice.advice(before[name][0], kind)[:1])
        table.add(kind, name, "right" if abs(said - fell) <= test_advice.NEAR * fell else "wrong", said, fell)
    for names in test_advice.NOT_SAID.values():
        for name, kind in names.items():
            table.add(f"{kind}, where it would not help", name, "wrong" if test_advice.advice(before[name][0], kind) else "right")
    return table, before["checkpoints"][2]


TOPICS = {"leaks": ("Leaks: bytes per step", leaks), "oom": ("Causes of running out of memory", oom),
          "advice": ("Advice: bytes by which the peak falls", advice)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("topics", nargs="*", choices=[*TOPICS, []], metavar="TOPIC", help="default: all")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep traces and truths here")
    arguments = parser.parse_args()
    topics, trace, parts = arguments.topics or list(TOPICS), None, []
    with tempfile.TemporaryDirectory() as temporary:
        for topic in topics:
            title, run = TOPICS[topic]
            table, trace = run((arguments.keep or pathlib.Path(temporary)) / topic)
            parts += ["", f"## {title}", "", *table.lines()]
        command = " ".join(["tests/corpus/findings.py", *arguments.topics, "> docs/results/findings.md"])
        print(made_here("Findings: said and true", command, versions(trace)), ABOUT, *parts, sep="\n")


if __name__ == "__main__":
    main()
