"""Runs a command as `vramtrace dryrun` and reads what it said and recorded."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
sys.path.insert(0, str(HERE.parent))
from helpers import ENVIRONMENT, PROGRAM, PYTHON  # noqa: E402, F401

FITS = re.compile(r"^(✓ fits|! may not fit|✗ does not fit) on ([^:]+): (.*)$", re.M)


def sequence(events):
    """(kind, ...) of each change of an allocator; frees between two allocations in any order, as a hash table of addresses gives them."""
    found, frees = [], []
    for event in events:
        if event[0].startswith("free"):
            frees.append(event)
        else:
            found += [*sorted(frees), event]
            frees = []
    return found + sorted(frees)


class Dry:
    def __init__(self, done, trace):
        self.status, self.output, self.error, self.trace = done.returncode, done.stdout, done.stderr, trace
        verdict = FITS.search(self.error)
        self.verdict, self.gpu = (verdict[1], verdict[2]) if verdict else (None, None)
        self.answer = self.error[verdict.start():].splitlines() if verdict else []

    def report(self):
        told = subprocess.run([PROGRAM, "report", "--json", self.trace], capture_output=True, text=True, check=True, env=ENVIRONMENT)
        return json.loads(told.stdout)


def dry(folder, command, *options, timeout=900, several=False, **settings):
    """In FOLDER; the trace is x.vrt there, or of SEVERAL the folder x/."""
    ours = ("VRAMTRACE_DRYRUN", "VRAMTRACE_STANDIN", "LD_")
    environment = {name: value for name, value in ENVIRONMENT.items() if not name.startswith(ours)}
    launchers = ("torch.distributed.run", "accelerate.commands.launch")
    several = several or "--world" in options or any(name in " ".join(map(str, command)) for name in launchers)
    trace = Path(folder) / ("x/" if several else "x.vrt")
    done = subprocess.run([PROGRAM, "dryrun", *options, "-o", f"{trace}/" if several else trace, *command], capture_output=True, text=True,
                          cwd=folder, env={**environment, "LANG": "C.UTF-8", **settings}, stdin=subprocess.DEVNULL, timeout=timeout)
    return Dry(done, trace)


def python(folder, script, *arguments, options=(), **settings):
    return dry(folder, [PYTHON, PROGRAMS / script if not os.path.isabs(script) else script, *arguments], *options, **settings)
