"""Runs programs under the hooks and reads what was recorded.

The build folder is $VRAMTRACE_BUILD. Two libraries have the same hooks: one with the recorder's stand-in
(record_double.c), which writes each event as a line of text, and the real one, whose trace the analyzer reads.
Tests that take the fixture `recorder` run with both, and see the same fields.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parent.parent / "build")).resolve()
PROGRAMS = BUILD / "tests" / "golden"
STANDIN = BUILD / "simulate"
ANALYZER = pathlib.Path(os.environ.get("VRAMTRACE_ANALYZER", BUILD / "analyzer" / "vramtrace"))
LIBRARIES = {"lines": PROGRAMS / "libvramtrace.so", "trace": BUILD / "preload" / "libvramtrace.so"}

KINDS = {}
FLAGS = {}
LAYERS = {"none": 0, "driver": 1, "runtime": 2, "framework": 3}


def read_format():
    """The names of event kinds and flags, from the header that defines them."""
    text = (HERE.parent.parent / "include" / "vramtrace" / "format.h").read_text()
    for name, value in re.findall(r"VT_EVENT_(\w+) = (\d+)", text):
        KINDS[int(value)] = name.lower()
    for name, value in re.findall(r"VT_FLAG_(\w+) = (\d+)", text):
        FLAGS[name.lower()] = int(value)


read_format()


class Event(dict):
    """One event; fields as attributes: kind, layer, device, flags, function, label, address, bytes, detail,
    total, stack (1 if frames were wanted), text."""

    __getattr__ = dict.__getitem__

    def has(self, *flags):
        return self["flags"] == sum(FLAGS[flag] for flag in flags)


class Run:
    def __init__(self, done, recorded, events, devices):
        self.returncode, self.output, self.error = done.returncode, done.stdout, done.stderr
        self.recorded = recorded  # anything at all
        self.events = events
        self.devices = devices  # (index, bytes, name)

    def of(self, *kinds):
        return [event for event in self.events if event.kind in kinds]


def read_lines(path):
    """What record_double.c wrote."""
    events, devices = [], []
    for line in path.read_text().splitlines():
        if line.startswith("device="):
            index, total, name = re.fullmatch(r"device=(\d+) total=(\d+) name=(.*)", line).groups()
            devices.append((int(index), int(total), name))
            continue
        fields = dict(part.split("=", 1) for part in line.split(" ", 2 if " text=" in line else -1))
        event = Event({key: value if key in ("function", "label", "text") else int(value)
                       for key, value in fields.items()})
        event["kind"] = KINDS[event["kind"]]
        events.append(event)
    return events, devices


# Of these the recorder knows no bytes; the analyzer adds them from what was freed.
TAKEN_BACK = ("free", "free_failed", "handle_release", "handle_retain")


def event_of_trace(told):
    kind = told["kind"]
    return Event(kind=kind, layer=LAYERS[told["layer"]], device=told["device"],
                 flags=sum(FLAGS[flag] for flag in told["flags"]), function=told["function"], label=told["label"],
                 address=int(told["address"], 16), bytes=0 if kind in TAKEN_BACK else told["bytes"] % (1 << 64),
                 detail=told["detail"], total=told["total_bytes"], stack=int(bool(told["frames"])),
                 text=told.get("name", told.get("text")))


def read_trace(path):
    events = subprocess.check_output([ANALYZER, "info", "--events", "--json", path], text=True)
    info = json.loads(subprocess.check_output([ANALYZER, "info", "--json", path], text=True))
    assert info["trace"]["complete"] and info["trace"]["dropped"] == 0
    return ([event_of_trace(json.loads(line)) for line in events.splitlines()],
            [(device["index"], device["total_bytes"], device["name"]) for device in info["devices"]])


def environment(library, **extra):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("VT_", "LD_", "VRAMTRACE_"))}
    env["LD_LIBRARY_PATH"] = f"{STANDIN}:{STANDIN / 'runtime12'}"
    if library is not None:
        env["LD_PRELOAD"] = str(library)
    env.update({key: str(value) for key, value in extra.items()})
    return env


def run(tmp_path, command, recorder="lines", timeout=120, **extra):
    """Runs `command` (a program of this folder's build by its name, or a path) with the hooks and one of
    LIBRARIES' recorders; with None, plainly. `extra` are environment variables; RECORDER in one is the library."""
    command = [str(part) for part in command]
    if (PROGRAMS / command[0]).exists():
        command[0] = str(PROGRAMS / command[0])
    if command[0] == "python":
        command[0] = sys.executable
    library = LIBRARIES.get(recorder)
    extra = {key: str(value).replace("RECORDER", str(library)) for key, value in extra.items()}
    out = tmp_path / "recorded"
    out.unlink(missing_ok=True)
    done = subprocess.run(command, env=environment(library, VT_DOUBLE_OUT=out, VRAMTRACE_OUT=out, **extra), text=True,
                          capture_output=True, timeout=timeout, check=False)
    if recorder == "trace":  # its last line says where the trace is
        done.stderr = re.sub(r"^vramtrace: .*\n", "", done.stderr, flags=re.M)
    events, devices = [], []
    if out.exists():
        events, devices = read_lines(out) if recorder == "lines" else read_trace(out)
    return Run(done, out.exists(), events, devices)


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
