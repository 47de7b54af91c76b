"""Runs many scripts, each in a process of its own that is forked from this one: PyTorch is imported once.

    children.py FOLDER NAME=SCRIPT[,ARGUMENT...]...      stdout gets one line of JSON: {NAME: exit code}

Nothing may touch CUDA before the fork; a child has its own CUDA, and so its own trace. VRAMTRACE_OUT should be
FOLDER/%p.vrt. What is imported before run() is frozen: no child's collector goes through it, which took half of their time.
"""
import functools
import gc
import json
import os
import pathlib
import signal
import sys
import types

import torch  # noqa: F401
import torch._dynamo  # noqa: F401  the first step of an optimizer asks for it

import models

LIMIT_SECONDS = 300  # ends what hangs, and not the whole run


def start(job, log):
    """In the child: never returns. Python ends as it does in any program."""
    signal.alarm(LIMIT_SECONDS)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    job()
    models.finish_backward()
    sys.exit(0)


def script(path, *arguments):
    """A job: the script as if it were run alone."""
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    main = sys.modules["__main__"] = types.ModuleType("__main__")  # as where it is run alone, it stays until the end
    main.__file__ = path
    exec(compile(pathlib.Path(path).read_text(), path, "exec"), main.__dict__)


def run(jobs, folder, at_once=2):
    """JOBS: {name: function}. FOLDER gets NAME.log, what it wrote, and NAME.vrt, its trace, if there is one. Returns
    {name: exit code, or minus the signal that ended it}."""
    waiting, running, codes = dict(jobs), {}, {}
    gc.freeze()
    while waiting or running:
        while waiting and len(running) < at_once:
            name = next(iter(waiting))
            job = waiting.pop(name)
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                start(job, folder / f"{name}.log")
            running[pid] = name
        pid, status = os.wait()
        name = running.pop(pid)
        codes[name] = os.waitstatus_to_exitcode(status)
        if (folder / f"{pid}.vrt").exists():
            (folder / f"{pid}.vrt").rename(folder / f"{name}.vrt")
    return codes


def main():
    jobs = (job.partition("=") for job in sys.argv[2:])
    print(json.dumps(run({name: functools.partial(script, *command.split(",")) for name, _, command in jobs}, pathlib.Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
