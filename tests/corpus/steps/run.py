#!/usr/bin/env python3
"""Runs programs of counted.py, each in a fork of this process.

    run.py FOLDER NAME...      FOLDER gets NAME.vrt if VRAMTRACE_OUT is FOLDER/%p.vrt, and NAME.json: what it counted
"""
import ctypes
import functools
import json
import pathlib
import sys
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "torch")]

import children  # noqa: E402
import counted  # noqa: E402


def load_mark():
    mark = ctypes.CDLL(None).vramtrace_mark
    mark.argtypes, mark.restype = [ctypes.c_char_p], None
    return mark


def load_step():
    """vramtrace.step() of a preloaded recorder."""
    mark = load_mark()
    sys.modules["vramtrace_step"] = types.SimpleNamespace(step=lambda: mark(b"vramtrace.step"))


def program(name, folder):
    load_step()
    count = counted.Count()
    getattr(counted, name)(count)
    origin = time.monotonic_ns()
    load_mark()(b"origin")
    marked = time.monotonic_ns()
    steps = getattr(count, "steps", count.passes)
    (folder / f"{name}.json").write_text(json.dumps({"requests": count.requests, "passes": count.passes, "steps": steps,
                                                     "origin": [origin, marked], "spans": count.spans}))


def main():
    folder = pathlib.Path(sys.argv[1])
    if any(name.startswith("transformers") for name in sys.argv[2:]):
        from transformers import LlamaForCausalLM  # noqa: F401
    codes = children.run({name: functools.partial(program, name, folder) for name in sys.argv[2:]}, folder)
    print(json.dumps(codes))
    sys.exit(any(codes.values()))


if __name__ == "__main__":
    main()
