#!/usr/bin/env python3
"""Runs programs of other projects with `vramtrace dryrun --advise`, and again with each change edited by hand. Prints a page: what was
advised, and what each change saves, as the trial says it and by PyTorch's own counters. Differences end it with 1.

    advised.py --python PYTHON --sources DIR [--keep FOLDER] [NAME...]     > docs/results/dryrun-advise.md

NAME: of a file edits/NAME.edits; NAME is a program of programs.md. PYTHON, DIR and FOLDER: as for programs.py. Lines of such a file:

    memory 5GiB                     the GPU, on which the program does not fit as it is
    run OPTIONS                     further options of the dry run
    arguments -b 64                 further ones of the program
    change foreach=off              a change, and its edit by hand, of these lines:
    arguments -b 32                     arguments that are added
    in FILE                             the text of this file: the lines with - are there once, and make place for those with +
    - ... / + ...
    first right, or wrong: WHY      how the trials were when this program was first compared, before anything was mended
    note ...                        what a reader should know, for the page
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap

import programs
from helpers import PROGRAM, made_here

HERE = pathlib.Path(__file__).resolve().parent
TEXT = """Programs of other projects in an ordinary virtual environment: {versions}. They are unchanged, and do not fit on the simulated
GPU. Of each: the answer of `vramtrace dryrun --advise`; and each change that it tried, beside the same change made by hand in a copy of
the script (`tests/dryrun/edits/`), by `torch.cuda.max_memory_allocated` and `_reserved`. Nothing here was compared with a real GPU.

{programs} programs: {fit} fit with what is advised. {changes} changes and sets of changes were compared: {equal} save the same to the byte.
They were looked at one after the other, and what was wrong was mended for all: at first sight {first} of {programs} were right; each
says what was not.
"""
LARGE = "1024GiB"  # as large as that on which a trial learns what it needs


def read(name):
    """{memory, run, note, changes: {change: {arguments, files: [[file, old, new]]}}}"""
    edit = {"arguments": [], "files": []}
    found = {"run": "", "note": "", "first": "", "changes": {"": edit}}
    for line in (HERE / "edits" / f"{name}.edits").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "change":
            edit = found["changes"][rest] = {"arguments": [], "files": []}
        elif word == "arguments":
            edit[word] += shlex.split(rest)
        elif word == "in":
            file = rest
        elif word == "-" and (not edit["files"] or edit["files"][-1][2]):
            edit["files"].append([file, [rest], []])
        elif word in ("-", "+"):
            edit["files"][-1]["-+".index(word) + 1].append(rest)
        elif word:
            found[word] = f"{found.get(word, '')} {rest}".strip()
    return found


def of_environment(change):
    """Changes that are variables need no edit."""
    kind, _, rest = change.partition(":")
    if kind == "alloc":
        return {"PYTORCH_CUDA_ALLOC_CONF": f"{rest}:True" if "=" not in rest else rest.replace("=", ":")}
    return dict([rest.split("=", 1)]) if kind == "env" else None


def edit(folder, files):
    for file, old, new in files:
        text, old = (folder / file).read_text(), "\n".join(old)
        assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
        (folder / file).write_text(text.replace(old, "\n".join(new)))


class Program:
    """A program of programs.md with its edits; what was found is kept in a folder."""

    def __init__(self, runner, name):
        self.runner, self.name, self.edits = runner, name, read(name)
        self.program = programs.read()[name]
        self.compared, self.fits = [], False
        self.kept = runner.keep / name
        self.kept.mkdir(parents=True, exist_ok=True)

    def run(self, what, memory, changes="", advise=False):
        """What it found: its output, its trials, or [allocated, reserved] by the counters. Runs only what is not kept."""
        kept = self.kept / f"{what.replace('/', '_')[:200]}.json"
        if kept.exists():
            return json.loads(kept.read_text())
        print(self.name, what, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="dryrun-advised-") as temporary:
            temporary = pathlib.Path(temporary)
            folder, environment = self.runner.prepare(self.program, temporary)
            arguments = []
            for change in dict.fromkeys(["", *changes.split(",")]):
                if of_environment(change):
                    environment.update(of_environment(change))
                    continue
                by_hand = self.edits["changes"][change]
                edit(folder, by_hand["files"])
                arguments += by_hand["arguments"]
            options = ["--advise", "--json", temporary / "trials"] if advise else []
            done = subprocess.run([PROGRAM, "dryrun", "--gpu-memory", memory, "--time", programs.TIME, *options,
                                   *shlex.split(self.program.options), *shlex.split(self.edits["run"]), "-o", f"{temporary}/traces/",
                                   *self.program.command(self.runner.python), *arguments],
                                  cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                  text=True, errors="replace")
            (self.kept / f"{kept.stem}.output").write_text(done.stdout)
            counted = temporary / "counters"
            found = json.loads((temporary / "trials").read_text())["trials"] if advise else max(
                [int(number) for number in line.split()] for line in counted.read_text().splitlines())
            kept.write_text(json.dumps(found))
        return found

    def by_hand(self, trial):
        """Where the trial does not fit, it was measured on a large GPU."""
        missing = [change for change in filter(None, trial["changes"].split(","))
                   if change not in self.edits["changes"] and not of_environment(change)]
        if missing:
            return f"no edit for {', '.join(missing)}"
        memory = self.edits["memory"] if trial["fits"] else LARGE
        return self.run(f"by hand {trial['changes'] or 'nothing'}", memory, trial["changes"])

    def lines(self):
        trials = self.run("advise", self.edits["memory"], advise=True)
        first, *others = trials
        self.fits = any(trial["best"] for trial in others)
        before = self.by_hand(first)
        told = (self.kept / "advise.output").read_text()
        answer = told[re.search(r"^[✓✗!] .*\n +in use", told, re.M).start():].rstrip()
        words = f"{self.program.arguments} {shlex.join(self.edits['changes']['']['arguments'])} {self.edits['run']}".strip()
        yield f"\n## {self.name}\n\n{self.program.place()}, `{words or ' '}`, on a GPU of {self.edits['memory']}."
        yield f"\n```\n{answer}\n```\n\n| changes | allocated: less by trial | by hand | reserved: less by trial | by hand | |"
        yield "|---|--:|--:|--:|--:|---|"
        equal = first["peak_used_bytes"] == before[0]
        yield f"| as it is: in use | {first['peak_used_bytes']:,} | {before[0]:,} | | | {word(equal)} |"
        for trial in others:
            if trial["failed"] or not trial["changed"] and trial["note"]:
                yield f"| `{trial['changes']}` | | | | | {'failed' if trial['failed'] else trial['note']} |"
                continue
            after = self.by_hand(trial)
            if isinstance(after, str):
                yield f"| `{trial['changes']}` | | | | | {after} |"
                continue
            saved = [first[part] - trial[part] for part in ("peak_used_bytes", "needed_bytes")]
            hand = [one - other for one, other in zip(before, after)]
            self.compared.append(saved == hand)
            yield (f"| `{trial['changes']}` | {saved[0]:,} | {hand[0]:,} | {saved[1]:,} | {hand[1]:,} | {word(saved == hand)} |")
        yield f"\nAt first {self.edits['first']}. {self.edits['note']}".rstrip()


def word(equal):
    return "equal" if equal else "**not equal**"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all that have edits")
    parser.add_argument("--python", required=True, metavar="PYTHON")
    parser.add_argument("--sources", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep what was found here, and run only what is not there")
    arguments = parser.parse_args()
    names = arguments.names or sorted(path.stem for path in (HERE / "edits").glob("*.edits"))
    with tempfile.TemporaryDirectory() as temporary:
        runner = programs.Runner(arguments.python, arguments.sources.resolve(), (arguments.keep or pathlib.Path(temporary)).resolve())
        found = [Program(runner, name) for name in names]
        pages = [list(program.lines()) for program in found]
    first = sum(program.edits["first"].startswith("right") for program in found)
    compared = [equal for program in found for equal in program.compared]
    command = " ".join(["tests/dryrun/advised.py --python PYTHON --sources DIR", *arguments.names])
    print(made_here("What a dry run advises, and the same edits by hand", command))
    text = TEXT.format(versions=programs.versions(runner.python), programs=len(found), changes=len(compared), equal=sum(compared),
                       fit=sum(program.fits for program in found), first=first)
    print("\n\n".join(textwrap.fill(part, 138, break_on_hyphens=False) for part in text.split("\n\n")))
    print("\n".join(line for lines in pages for line in lines))
    return not all(compared)


if __name__ == "__main__":
    sys.exit(main())
