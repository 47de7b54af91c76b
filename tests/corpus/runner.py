#!/usr/bin/env python3
"""Runs programs of programs.md, each in a fork of this process (tests/torch/children.py).

    runner.py FOLDER [--inspect] [--names] NAME[-remedy]...
    runner.py --alone TRUTH NAME                           one that records a truth, in this process

FOLDER gets NAME.log, NAME.vrt if VRAMTRACE_OUT is FOLDER/%p.vrt, NAME.truth of programs that write one, and NAME.failed if such a
program ended otherwise than it should: one whose name begins with `killed` must be killed. The last line on stdout is JSON: {NAME: exit
code}. --inspect: the first mark of each name requests an inspection of live objects; unrequested inspections get a share of the
process's life, and these processes are short-lived. --names: the truth has every tensor by name, too.
"""
import argparse
import contextlib
import functools
import importlib
import json
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "torch")]

import torch  # noqa: E402

import category_truth  # noqa: E402
import catalogue  # noqa: E402
import children  # noqa: E402
import leak_truth  # noqa: E402
import models  # noqa: E402


def module(program):
    return importlib.import_module(f"{program.topic}.{program.file}")


def train(program, truth):
    models.settings()
    torch.manual_seed(0)
    record = category_truth.Record(program.name, str(truth))
    getattr(module(program), program.name)(record)
    record.write()


def leak(program, truth):
    probe = leak_truth.Probe(program.path, truth)
    module(program).main(probe)
    probe.write()


def job(text, folder):
    name, *arguments = text.split("-")
    program = catalogue.read()[name]
    if program.topic == "oom":
        return functools.partial(children.script, str(program.path), *arguments)
    return functools.partial(leak if program.topic == "leaks" else train, program, folder / f"{name}.truth")


def import_packages(programs):
    """Before the forks: what takes long to import. Programs that were held out may use any of it."""
    for program in programs:
        if program.topic in catalogue.CATEGORIES:
            imported = getattr(module(program), "imported", None)
            if imported or program.set:
                with contextlib.suppress(ImportError, NameError):  # a package that needs a newer PyTorch: who uses it fails
                    (imported or importlib.import_module("training.trainers").imported)()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="with --alone, the file of the truth")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--inspect", action="store_true")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--names", action="store_true", dest="with_names")
    arguments = parser.parse_intermixed_args()
    category_truth.Record.with_names = arguments.with_names
    category_truth.Record.with_inspections = arguments.inspect or arguments.with_names
    folder, programs = arguments.folder, catalogue.read()
    if arguments.alone:
        program = programs[arguments.names[0]]
        return (leak if program.topic == "leaks" else train)(program, folder)
    import_packages(programs[name] for name in arguments.names if name in programs)
    codes = children.run({name: job(name, folder) for name in arguments.names}, folder)
    for name, code in codes.items():
        if name in programs and programs[name].topic != "oom" and code != (-signal.SIGKILL if name.startswith("killed") else 0):
            (folder / f"{name}.failed").write_text(f"ended with status {code}:\n" + (folder / f"{name}.log").read_text())
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
