#!/usr/bin/env python3
"""Runs all trainings of the catalogue, with and without inspections of live objects, and compares vramtrace's category of
each block with the truth (truth.py).

    table.py [--keep FOLDER] [--unseen[=FOLDER]] [NAME...] > docs/results/attribution.md

Needs VRAMTRACE_BUILD, VRAMTRACE_PYTHON and VRAMTRACE_RUN, like all tests here (tests/helpers.py). --unseen: the programs of unseen/,
fresh/ or third/ instead, with a table by class.
"""
import argparse
import concurrent.futures
import dataclasses
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

import judge  # noqa: E402
from helpers import PYTHON, made_here, report, run, versions  # noqa: E402
from sources import FOLDERS, SOURCES, UNSEEN, names  # noqa: E402

MODES = {"rules": False, "inspections": True}
PACKAGES = ("torchvision", "transformers", "peft", "accelerate", "lightning")  # whose trainings are in the catalogue
RIGHT = 0.999  # a program is right if this share of its bytes is, at its worst moment


def all_names():
    return [name for source in SOURCES for name in names(source)]


def classes_of(folder):
    """class -> its programs."""
    return {source.stem: names(source) for source in UNSEEN[folder]}


def train(folder, inspect, wanted):
    """Writes NAME.vrt and NAME.truth of each training to FOLDER."""
    folder.mkdir(parents=True, exist_ok=True)
    ended = run([PYTHON, HERE / "runner.py", folder, *(["--inspect"] if inspect else []), *wanted], folder / "%p.vrt",
                check=False, timeout=1800, VRAMTRACE_INSPECT="1" if inspect else "0")
    missing = [name for name in wanted if not any((folder / f"{name}.{end}").exists() for end in ("truth", "failed"))]
    assert not missing, f"not trained: {missing}; exit status {ended.returncode}\n{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"


@dataclasses.dataclass
class Result:
    """The result of one training."""

    name: str
    moments: list
    step_count: int
    true_steps: int
    peak_bytes: int

    def share(self, group=None):
        """Share of right bytes: of all, at the worst moment; of a group, over all moments."""
        if group is None:
            return min(moment.share() for moment in self.moments)
        return self.all_moments().share(group)

    def all_moments(self):
        return judge.Moment("", [block for moment in self.moments for block in moment.blocks])

    def has(self, group):
        return any(moment.bytes(group) for moment in self.moments)

    def unknown(self):
        return max(moment.unknown() for moment in self.moments)

    def open_share(self):
        """The largest share of bytes that the truth leaves open."""
        return max(sum(block.bytes for block in moment.blocks if not block.true) /
                   max(1, sum(block.bytes for block in moment.blocks)) for moment in self.moments)


    def right(self):
        return self.share() >= RIGHT

    def named(self):
        """Bytes that have their name, and that should."""
        asked = [block for block in self.all_moments().blocks if block.true in judge.NAMED]
        return sum(block.bytes for block in asked if block.named), sum(block.bytes for block in asked)

    def told(self, evidence):
        """Bytes told with this evidence, and those of them that are wrong."""
        blocks = [block for block in self.all_moments().blocks if block.evidence == evidence]
        return sum(block.bytes for block in blocks), sum(block.bytes for block in blocks if not block.right)


def examine(folder, name, inspected):
    trace, failed = folder / f"{name}.vrt", folder / f"{name}.failed"
    assert not failed.exists(), failed.read_text()
    moments, truth = judge.judge(
        folder / f"{name}.truth",
        lambda moment: report(trace, "--at", moment, "--by", "block")["devices"][0]["at"], inspected)
    steps = report(trace, "--at", "end")["devices"][0]["at"]["step"]
    return Result(name, moments, steps, truth.document["steps"], truth.document["peak_bytes"])


def results(folder, inspect, wanted):
    train(folder, inspect, wanted)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda name: examine(folder, name, inspect), wanted))


def percent(share):
    """Rounded down: only a full share prints as 100 %."""
    return "100 %" if share == 1 else f"{int(share * 100000) / 1000:.3f} %".replace(".000", "")


def rows(found):
    """The lines of one mode's markdown table."""
    groups = [group for group in judge.GROUPS if any(result.has(group) for result in found)]
    yield "| training | peak | all | at peak | " + " | ".join(groups) + " | unknown | open |"
    yield "|---|--:|" + "--:|" * (len(groups) + 4)
    for result in found:
        shares = [percent(result.share(group)) if result.has(group) else "–" for group in groups]
        yield (f"| {result.name} | {result.peak_bytes / 2**20:.1f} MiB | {percent(result.share())} | "
               f"{percent(result.moments[-1].share())} | {' | '.join(shares)} | "
               f"{percent(result.unknown())} | {percent(result.open_share())} |")


def share_of(part, whole):
    return percent(part / whole) if whole else "–"


def calibration(tables):
    """How often each word of evidence was right: bytes over all moments of all programs."""
    yield "| evidence | " + " | ".join(f"{short}: of all | wrong" for short in SHORT.values()) + " |"
    yield "|---|" + "--:|--:|" * len(tables)
    told = {mode: {word: [sum(column) for column in zip(*(result.told(word) for result in found))]
                   for word in judge.EVIDENCES} for mode, found in tables.items()}
    for word in judge.EVIDENCES:
        cells = []
        for mode in tables:
            told_bytes, wrong = told[mode][word]
            cells.append(f"{share_of(told_bytes, sum(bytes for bytes, _ in told[mode].values()))} | {share_of(wrong, told_bytes)}")
        yield f"| {word} | {' | '.join(cells)} |"


def summary(tables):
    """Programs that are right, and the share of bytes with their names."""
    yield "| mode | programs | right | names |"
    yield "|---|--:|--:|--:|"
    for mode, found in tables.items():
        named = [sum(column) for column in zip(*(result.named() for result in found))]
        yield (f"| {SHORT[mode]} | {len(found)} | {sum(result.right() for result in found)} | "
               f"{share_of(*named) if MODES[mode] else '–'} |")


def by_class(tables, classes):
    """As summary, for each class."""
    yield "| class | programs | " + " | ".join(f"right {SHORT[mode]}" for mode in tables) + " | names |"
    yield "|---|" + "--:|" * (len(tables) + 2)
    for name, programs in classes.items():
        found = {mode: [result for result in results if result.name in programs] for mode, results in tables.items()}
        if not any(found.values()):
            continue
        named = [sum(column) for column in zip(*(result.named() for result in found["inspections"]))]
        right = " | ".join(str(sum(result.right() for result in results)) for results in found.values())
        yield f"| {name} | {len(found['inspections'])} | {right} | {share_of(*named)} |"


COLUMNS = """*all*: the share of all bytes that are in their true category, at the worst moment. *at peak*: the same at the peak. The columns of
groups are over all moments: bytes that are right, of those that belong to the group or were wrongly put into it. *open*: the largest
share of bytes at any moment whose category the truth leaves open. *names*: bytes with the right name. A program is right if 99.9 % of
its bytes are, at its worst moment.
"""
SHORT = {"rules": "by rules", "inspections": "with inspections"}
TITLES = {"rules": "By rules alone (`VRAMTRACE_INSPECT=0`)", "inspections": "With inspections of live objects"}


def markdown(tables, classes=None):
    parts = ["## Summary", "", *summary(tables), "", *(by_class(tables, classes) if classes else ()), ""]
    parts += ["## Evidence", "", *calibration(tables), ""]
    for mode, found in tables.items():
        parts += [f"## {TITLES[mode]}", "", *rows(found), ""]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--unseen", nargs="?", const="unseen", choices=FOLDERS, metavar="FOLDER")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep traces and truths here")
    arguments = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        classes = classes_of(arguments.unseen) if arguments.unseen else None
        wanted = arguments.names or ([name for programs in classes.values() for name in programs] if classes else all_names())
        tables = {mode: results(folder / mode, inspect, wanted) for mode, inspect in MODES.items()}
        command = "tests/torch/zoo/table.py" + (f" --unseen={arguments.unseen}" if arguments.unseen else " > docs/results/attribution.md")
        print(made_here("Categories compared with the truth", command,
                        versions(folder / "rules" / f"{wanted[0]}.vrt", *PACKAGES)))
    print(COLUMNS)
    print(markdown(tables, classes))


if __name__ == "__main__":
    main()
