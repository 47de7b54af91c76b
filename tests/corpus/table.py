#!/usr/bin/env python3
"""Runs programs of programs.md and prints a table of what vramtrace said of them, right or wrong.

    table.py categories|names|leaks|oom [--held-out SET] [--keep FOLDER] [NAME...]

`table.py categories > docs/results/attribution.md` and likewise names and leaks make these pages. --held-out: the
programs of that set instead of those that the analysis was improved on. Needs VRAMTRACE_BUILD, VRAMTRACE_PYTHON and VRAMTRACE_RUN,
like all tests (tests/helpers.py).
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import catalogue  # noqa: E402
import judge  # noqa: E402
from helpers import info, made_here, report, versions  # noqa: E402

MODES = {"rules": False, "inspections": True}
PACKAGES = ("torchvision", "transformers", "peft", "accelerate", "lightning")  # whose trainings are in training/
RIGHT = 0.999  # a program is right if this share of its bytes is, at its worst moment


# ---- Categories ----


def train(folder, inspect, wanted):
    return judge.run(folder, wanted, inspect, VRAMTRACE_INSPECT="1" if inspect else "0")


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
    trace = folder / f"{name}.vrt"
    moments, truth = judge.judge(
        judge.truth_of(folder, name),
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


def by_file(tables):
    """As summary, for each file."""
    yield "| file | programs | " + " | ".join(f"right {SHORT[mode]}" for mode in tables) + " | names |"
    yield "|---|" + "--:|" * (len(tables) + 2)
    for file in dict.fromkeys(catalogue.read()[result.name].file for result in tables["rules"]):
        found = {mode: [result for result in results if catalogue.read()[result.name].file == file] for mode, results in tables.items()}
        named = [sum(column) for column in zip(*(result.named() for result in found["inspections"]))]
        right = " | ".join(str(sum(result.right() for result in results)) for results in found.values())
        yield f"| {file} | {len(found['inspections'])} | {right} | {share_of(*named)} |"


COLUMNS = """*all*: the share of all bytes that are in their true category, at the worst moment. *at peak*: the same at the peak. The columns of
groups are over all moments: bytes that are right, of those that belong to the group or were wrongly put into it. *open*: the largest
share of bytes at any moment whose category the truth leaves open. *names*: bytes with the right name. A program is right if 99.9 % of
its bytes are, at its worst moment.
"""
SHORT = {"rules": "by rules", "inspections": "with inspections"}
TITLES = {"rules": "By rules alone (`VRAMTRACE_INSPECT=0`)", "inspections": "With inspections of live objects"}


def categories(folder, wanted, held_out):
    tables = {mode: results(folder / mode, inspect, wanted) for mode, inspect in MODES.items()}
    yield made_by("categories", "attribution", "Categories compared with the truth", held_out,
                  folder / "rules" / f"{wanted[0]}.vrt", *PACKAGES)
    yield from (COLUMNS, "## Summary", "", *summary(tables), "", *(by_file(tables) if held_out else ()), "")
    yield from ("## Evidence", "", *calibration(tables), "")
    for mode, found in tables.items():
        yield from (f"## {TITLES[mode]}", "", *rows(found), "")


# ---- Names on a busy machine ----

NAMES = """Inspections as they come by themselves, none requested, beside {loops} busy loops on {cores} cores. *seconds*: from the first CUDA call to
the end. *names*: bytes with their right name, of those that outlive a step.

| program | seconds | inspections | CPU time | names |
|---|--:|--:|--:|--:|"""
LOOPS, LONG_LIFE_SECONDS, NAMED_SHARE = 8, 3, 0.95


@contextlib.contextmanager
def busy_loops(count):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def seconds_lived(trace):
    """Until it wrote what is true, at its end."""
    begun = info(trace)["trace"]["start_realtime_ns"]
    return trace.with_suffix(".truth").stat().st_mtime - begun / 1e9


def names(folder, wanted, held_out):
    with busy_loops(LOOPS):
        judge.run(folder, wanted, VRAMTRACE_INSPECT="1")
    yield made_by("names", "names", "Names of short programs on a busy machine", held_out, folder / f"{wanted[0]}.vrt", *PACKAGES)
    yield from name_rows(folder, (examine(folder, name, True) for name in wanted))


def name_rows(folder, found):
    yield NAMES.format(loops=LOOPS, cores=os.cpu_count())
    shares = []
    for result in found:
        trace, (named, asked) = folder / f"{result.name}.vrt", result.named()
        seconds, looks = seconds_lived(trace), info(trace)["inspections"]["each"]
        processor_ns = sum(each["processor_ns"] for each in looks)
        if seconds >= LONG_LIFE_SECONDS and asked:
            shares.append(named / asked)
        yield f"| {result.name} | {seconds:.1f} | {len(looks)} | {processor_ns / 1e6:.0f} ms | {share_of(named, asked)} |"
    yield (f"\nOf {len(shares)} programs that lived {LONG_LIFE_SECONDS} s or longer, {sum(share >= NAMED_SHARE for share in shares)} have "
           f"the names of {percent(NAMED_SHARE)} of these bytes.")


# ---- Leaks ----

LEAKS = """The programs of `tests/corpus/leaks/`. The truth is `torch.cuda.memory_allocated()` at the same place of every step. A line is right
if it is among the first three shown, bytes per step if they are within 1 % (of programs that were held out 5 %). *held by*: the Python
name, found by an inspection that the program requests near its end.

| program | verdict | bytes per step | true | line | held by | |
|---|---|--:|--:|---|---|---|"""
RESPECTS = ("found", "verdict", "line", "bytes", "holder")


def leaks(folder, wanted, held_out):
    judge.run(folder, wanted)
    yield made_by("leaks", "leaks", "Leaks: reported and true", held_out, folder / f"{wanted[0]}.vrt")
    yield LEAKS
    wrong = {}
    for name in wanted:
        truth, answer = judge.truth_of(folder, name), judge.answer_of(folder, name)
        found = judge.leaks_of(answer)
        wrong[name] = {**judge.judge_leak(name, truth, answer), **judge.judge_holder(name, answer)}
        place, holder = "–", found[0]["holder"] if found else None
        if found:
            shown = judge.shown_lines(name, found[0])
            hit = [number for number, line in enumerate(shown) if line in truth["lines"]]
            place = f"{'first second third'.split()[hit[0]]} of {len(shown)}" if hit else "not shown"
        true = round(truth["bytes_per_step"]) if catalogue.read()[name].verdicts() else 0
        verdict = " · ".join(leak["verdict"] for leak in answer["devices"][0]["leaks"]) or "no leak"
        yield (f"| {name} | {verdict} | {sum(leak['bytes_per_step'] for leak in found):,} | {true:,} | {place} | {holder or '–'} | "
               f"{'; '.join(wrong[name].values()) or 'right'} |")
    leaking = [name for name in wanted if catalogue.read()[name].verdicts()]
    missed = {name for name in leaking if wrong[name].get("found") in ("not found", "not judged")}
    counts = {what: sum(what not in wrong[name] and name not in missed for name in leaking) for what in RESPECTS}
    alarms = sum("found" in wrong[name] for name in wanted if name not in leaking)
    yield (f"\n{sum(not wrong[name] for name in wanted)} of {len(wanted)} right. Of {len(leaking)} leaks: " +
           ", ".join(f"{what} {count}" for what, count in counts.items()) + f". False alarms: {alarms} of {len(wanted) - len(leaking)}.")


# ---- Out of memory ----


def out_of_memory(folder, wanted, held_out):
    wanted = [name for name in wanted if not {"cause", "cause contains"}.isdisjoint(catalogue.read()[name].expected)]
    codes, right = judge.run_oom(folder, wanted, wanted), 0
    yield "| program | cause | remedy | |\n|---|---|---|---|"
    for name in wanted:
        wrong, cause = judge.judge_oom(folder, name, codes)
        right += not wrong
        yield f"| {name} | {cause['what']} | {cause['remedy']} | {wrong or 'right'} |"
    yield f"\n{right} of {len(wanted)} right."


TOPICS = {"categories": (categories, catalogue.CATEGORIES), "names": (names, catalogue.CATEGORIES),
          "leaks": (leaks, ("leaks",)), "oom": (out_of_memory, ("oom",))}


def made_by(topic, page, title, held_out, trace, *packages):
    command = f"tests/corpus/table.py {topic}" + (f" --held-out {held_out}" if held_out else f" > docs/results/{page}.md")
    return made_here(title, command, versions(trace, *packages))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("topic", choices=TOPICS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--held-out", default="", choices=catalogue.SETS, metavar="SET")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep traces and truths here")
    arguments = parser.parse_intermixed_args()
    table, topics = TOPICS[arguments.topic]
    with tempfile.TemporaryDirectory() as temporary:
        wanted = arguments.names or catalogue.names(*topics, held_out=arguments.held_out)
        for line in table(arguments.keep or pathlib.Path(temporary), wanted, arguments.held_out):
            print(line)


if __name__ == "__main__":
    main()
