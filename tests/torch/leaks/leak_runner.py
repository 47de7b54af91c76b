#!/usr/bin/env python3
"""Runs scripts of this folder, of leaks_unseen/, leaks_fresh/ and leaks_third/ by children.py: leak_runner.py FOLDER NAME...

FOLDER gets NAME.json (the truth), NAME.log and NAME.vrt; VRAMTRACE_OUT should be FOLDER/%p.vrt.
"""
import functools
import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import children  # noqa: E402

import leak_tools  # noqa: E402

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("leaks_unseen", "leaks_fresh", "leaks_third")]


def run(name, folder):
    module = importlib.import_module(name)
    probe = leak_tools.Probe(module.__file__, folder / f"{name}.json")
    module.main(probe)
    probe.write()


def main(folder, *names):
    folder = pathlib.Path(folder)
    codes = children.run({name: functools.partial(run, name, folder) for name in names}, folder)
    failed = [f"{name}:\n{(folder / f'{name}.log').read_text()}" for name, code in codes.items() if code]
    return "failed: " + "\n".join(failed) if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
