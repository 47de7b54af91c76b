#!/usr/bin/env python3
"""Runs programs of public repositories (repositories.md), and prints a table of what vramtrace said of them, right or wrong.

    repositories.py --sources DIR [--names] [--keep FOLDER] [NAME...]

`repositories.py --sources DIR > docs/results/repositories.md` makes this page. DIR/OWNER/NAME are checkouts of the repositories; a
program whose checkout or packages are not there is skipped, and listed. PYTHONPATH has the packages beyond torch. --names: no
inspection is requested, and busy loops run beside. Needs what table.py needs.
"""
import argparse
import dataclasses
import functools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import helpers  # noqa: E402
import judge  # noqa: E402
import table  # noqa: E402

LIMIT_SECONDS = 300
COLUMNS = ("name", "script", "arguments", "stop", "data", "packages", "skipped")


@dataclasses.dataclass(frozen=True)
class Program:
    repository: str
    commit: str
    name: str
    script: str
    arguments: str = ""
    stop: str = ""
    data: str = ""
    packages: str = ""
    skipped: str = ""


def read(text=None):
    """{name: program}, in the order of the table."""
    programs, repository, commit = {}, None, None
    for line in (text or (HERE / "repositories.md").read_text()).splitlines():
        if line.startswith("## "):
            _, repository, commit = line.split()
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == len(COLUMNS) and cells[0] != "program" and not cells[0].startswith("---"):
            assert cells[0] not in programs, f"two programs are called {cells[0]}"
            programs[cells[0]] = Program(repository, commit, *cells)
    return programs


# ---- What is there ----


@functools.lru_cache(maxsize=None)
def has_package(name):
    code = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({name!r}))"
    return not subprocess.run([helpers.PYTHON, "-c", code], env=helpers.ENVIRONMENT).returncode


def why_not(program, sources):
    """Why it is skipped, "" if it is not."""
    if program.skipped:
        return program.skipped
    if not (sources / program.repository / program.script.partition("#")[0]).exists():
        return f"{program.repository} is not there"
    told = subprocess.run(["git", "-C", sources / program.repository, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    if told not in (program.commit, ""):
        return f"{program.repository} is at {told}"
    missing = [package for package in program.packages.split() if not has_package(package)]
    return f"without {', '.join(missing)}" if missing else ""


# ---- Running and judging ----


def run(program, sources, folder, inspect, **settings):
    """Its exit code and last words, "" if it ended well. FOLDER gets NAME.vrt and NAME.truth."""
    folder.mkdir(parents=True, exist_ok=True)
    trace, truth = folder / f"{program.name}.vrt", folder / f"{program.name}.truth"
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary, program.repository.split("/")[1])
        shutil.copytree(sources / program.repository, root, ignore=shutil.ignore_patterns(".git"))
        data = [word for name in program.data.split() for word in ("--data", name)]
        command = [helpers.PYTHON, HERE / "watched.py", truth, *(["--inspect"] if inspect else []), f"--stop={program.stop}", *data,
                   root, program.script, *shlex.split(program.arguments)]
        try:
            ended = helpers.run(command, folder / f"{program.name}.%p.vrt", check=False, timeout=LIMIT_SECONDS, **settings)
        except subprocess.TimeoutExpired:
            return f"did not end in {LIMIT_SECONDS} s"
    traces = sorted(folder.glob(f"{program.name}.*.vrt"), key=lambda path: path.stat().st_size)
    if traces:  # those of what it started are smaller
        traces.pop().replace(trace)
        for other in traces:
            other.unlink()
    (folder / f"{program.name}.log").write_text(ended.stdout + ended.stderr)
    if ended.returncode or not truth.exists():
        errors = [line for line in ended.stderr.splitlines() if re.match(r"\w[\w.]*(Error|Exception)\b", line)] or ["?"]
        return f"ended with {ended.returncode}: {errors[-1][:100]}"
    return "" if json.loads(truth.read_text())["lives"] else "uses no GPU"


class Truth(judge.Truth):
    """What nothing tells may be anything that a script holds; never what is known of all of its kind."""

    OPEN = {"activation", "temporary", "input", "other", "communication", "checkpoint_copy"}

    def __init__(self, document):
        super().__init__(document)
        self.may_be = {int(number): categories for number, categories in document["may_be"].items()}

    def allows(self, number, reported, inspected):
        if self.category[number] == "" and (reported in self.may_be.get(number, self.OPEN)):
            return True
        return super().allows(number, reported, inspected)


@dataclasses.dataclass
class Result(table.Result):
    leaks: tuple = ()
    told_of: dict = dataclasses.field(default_factory=dict)  # {number: the block in a report}

    def wrong(self):
        """Each block that is wrong at some moment, once."""
        return list({block.number: block for moment in self.moments for block in moment.wrong()}.values())

    def open_bytes(self):
        return max(sum(block.bytes for block in moment.blocks if not block.true) for moment in self.moments)


def examine(folder, name, inspected):
    trace, told_of = folder / f"{name}.vrt", {}

    def view_at(moment):
        view = helpers.report(trace, "--at", moment, "--by", "block")["devices"][0]["at"]
        told_of.update({block["alloc_number"]: block for block in judge.framework_blocks(view)})
        return view

    moments, truth = judge.judge(json.loads((folder / f"{name}.truth").read_text()), view_at, inspected, Truth)
    leaks = tuple(f"{leak['verdict']}, {leak['bytes_per_step']} per step" for leak in judge.leaks_of(judge.answer_of(folder, name)))
    return Result(name, moments, 0, truth.document["steps"], truth.document["peak_bytes"], leaks, told_of)


def results(programs, sources, folder, inspect, **settings):
    """[Result...] and {name: why it has none}."""
    found, failed = [], {}
    for program in programs:
        why = "" if (folder / f"{program.name}.truth").exists() else run(program, sources, folder, inspect, **settings)
        if why:
            failed[program.name] = why
        else:
            found.append(examine(folder, program.name, settings["VRAMTRACE_INSPECT"] == "1"))
        print(program.name, why or table.percent(found[-1].share()), file=sys.stderr, flush=True)
    return found, failed


# ---- Pages ----

WHAT = """Programs at the commits in `tests/corpus/repositories.md`, unchanged. What is true is recorded from outside (`watched.py`).
*open*: the most bytes at any moment of which that leaves open what they are, in part or wholly; there all that it does not exclude
counts as right. A program is right if 99.9 % of its bytes are, at its worst moment. *wrong*: bytes over all moments, by evidence.
*leaks*: what `vramtrace leaks` calls a leak.
"""


def rows(found):
    yield "| program | peak | right | open | wrong: strong | weak | names | leaks |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|"
    for result in found:
        (_, strong), (_, weak) = result.told("strong"), result.told("weak")
        yield (f"| {result.name} | {result.peak_bytes / 2**20:.1f} MiB | {table.percent(result.share())} | {result.open_bytes():,} | "
               f"{strong:,} | {weak:,} | {table.share_of(*result.named())} | {'; '.join(result.leaks) or '–'} |")


def wrong_blocks(found):
    """Of each program that is wrong, the largest blocks: what is true, what was told, and by which line."""
    for result in found:
        if result.right():
            continue
        yield f"- {result.name}"
        for block in sorted(result.wrong(), key=lambda block: -block.bytes)[:6]:
            told = result.told_of[block.number]
            yield (f"  - {block.bytes:,} bytes: {block.true or 'open'}, told {block.reported} ({block.evidence}, rule {told['rule']}), "
                   f"{told['op']} in {told['phase']} of step {told['step']}, {pathlib.Path(told['file'] or '?').name}:{told['line']}")


def skipped(missing):
    yield from ("## Skipped", "", *(f"- {name}: {why}" for name, why in missing.items()))


def categories(programs, sources, folder, missing):
    tables = {}
    for mode, inspect in table.MODES.items():
        tables[mode], failed = results(programs, sources, folder / mode, inspect, VRAMTRACE_INSPECT="1" if inspect else "0")
        missing.update(failed)
    yield WHAT
    yield from ("## Summary", "", *table.summary(tables), "", "## Evidence", "", *table.calibration(tables), "")
    for mode, found in tables.items():
        yield from (f"## {table.TITLES[mode]}", "", *rows(found), "")
        wrong = list(wrong_blocks(found))
        yield from (("Wrong, the largest blocks of each:", "", *wrong, "") if wrong else ())
    yield from skipped(missing)


def names(programs, sources, folder, missing):
    with table.busy_loops(table.LOOPS):
        found, failed = results(programs, sources, folder, False, VRAMTRACE_INSPECT="1")
    missing.update(failed)
    yield from (*table.name_rows(folder, found), "")
    yield from skipped(missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--sources", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--names", action="store_true", dest="as_names")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep traces and truths here, and run only what has none")
    arguments = parser.parse_intermixed_args()
    programs = [program for program in read().values() if not arguments.names or program.name in arguments.names]
    missing = {program.name: why for program in programs if (why := why_not(program, arguments.sources))}
    wanted = [program for program in programs if program.name not in missing]
    with tempfile.TemporaryDirectory() as temporary:
        page = names if arguments.as_names else categories
        command = "tests/corpus/repositories.py --sources DIR" + (" --names" if arguments.as_names else "")
        print(helpers.made_here("Programs of public repositories", command))
        for line in page(wanted, arguments.sources, arguments.keep or pathlib.Path(temporary), missing):
            print(line)


if __name__ == "__main__":
    main()
