"""Runs programs under the hooks and reads what was recorded.

The build folder is $VRAMTRACE_BUILD. Reading events is behind `run` and `Run.events` alone: with the
recorder's stand-in (record_double.c) they are lines of text.
"""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).resolve()
PROGRAMS = BUILD / "tests" / "golden"
STANDIN = BUILD / "tests" / "standin"
SHIM = PROGRAMS / "libvramtrace.so"

KINDS = {}
FLAGS = {}


def read_format():
    """The names of event kinds and flags, from the header that defines them."""
    text = (HERE.parent.parent / "include" / "vramtrace" / "format.h").read_text()
    for name, value in re.findall(r"VT_EVENT_(\w+) = (\d+)", text):
        KINDS[int(value)] = name.lower()
    for name, value in re.findall(r"VT_FLAG_(\w+) = (\d+)", text):
        FLAGS[name.lower()] = int(value)


read_format()


class Event(dict):
    """One event; fields as attributes."""

    __getattr__ = dict.__getitem__

    def has(self, *flags):
        return self.flags == sum(FLAGS[flag] for flag in flags)


class Run:
    def __init__(self, returncode, output, error, events, lines):
        self.returncode, self.output, self.error = returncode, output, error
        self.events = events
        self.lines = lines  # of the recorder's stand-in, devices and names too

    def of(self, *kinds):
        return [event for event in self.events if event.kind in kinds]


def parse(path):
    if not path.exists():
        return [], []
    lines = path.read_text().splitlines()
    events = []
    for line in lines:
        if not line.startswith("kind="):
            continue
        fields = dict(part.split("=", 1) for part in line.split(" ", 2 if " text=" in line else -1))
        event = Event({key: value if key in ("function", "label", "text") else int(value)
                       for key, value in fields.items()})
        event["kind"] = KINDS[event["kind"]]
        events.append(event)
    return events, lines


def environment(shim=SHIM, **extra):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("VT_", "LD_"))}
    env["LD_LIBRARY_PATH"] = f"{STANDIN}:{STANDIN / 'runtime12'}"
    if shim is not None:
        env["LD_PRELOAD"] = str(shim)
    env.update({key: str(value) for key, value in extra.items()})
    return env


def run(tmp_path, command, shim=SHIM, timeout=120, **extra):
    """Runs `command` (a program of this folder's build by its name, or a path) with the hooks."""
    command = [str(part) for part in command]
    if (PROGRAMS / command[0]).exists():
        command[0] = str(PROGRAMS / command[0])
    if command[0] == "python":
        command[0] = sys.executable
    out = tmp_path / "events.txt"
    out.unlink(missing_ok=True)
    done = subprocess.run(command, env=environment(shim, VT_DOUBLE_OUT=out, **extra), text=True,
                          capture_output=True, timeout=timeout, check=False)
    events, lines = parse(out)
    return Run(done.returncode, done.stdout, done.stderr, events, lines)


def truth(output):
    """What a program says it did: allocs as (address, bytes, flags), frees as addresses, each in order."""
    allocs, frees = [], []
    for line in output.splitlines():
        words = line.split()
        if words[0] == "alloc":
            allocs.append((int(words[1], 16), int(words[2]), int(words[3])))
        elif words[0] == "free":
            frees.append(int(words[1], 16))
    return allocs, frees


def check_exactly_once(done, layer=1):
    """Each allocation and free that the program tells of was recorded once, and no other was."""
    assert done.returncode == 0, done.output + done.error
    allocs, frees = truth(done.output)
    assert allocs, done.output
    assert sorted((e.address, e.bytes, e.flags) for e in done.of("alloc")) == sorted(allocs)
    assert sorted(e.address for e in done.of("free")) == sorted(frees)
    assert not done.of("free_failed", "alloc_failed")
    assert {e.layer for e in done.of("alloc", "free")} == {layer}
