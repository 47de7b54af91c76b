"""The whole way, from each program to what the analyzer reads: every allocation once, with the caller's stack."""
import json
import pathlib
import shutil
import subprocess

import pytest

from harness import BUILD, HERE, PROGRAMS, environment, truth

LIBRARY = BUILD / "preload" / "libvramtrace.so"
PROGRAM = BUILD / "analyzer" / "vramtrace"


def record(tmp_path, command, **extra):
    """(what the program says it did, events of its trace)"""
    command = [str(PROGRAMS / command[0]) if (PROGRAMS / command[0]).exists() else str(command[0]),
               *map(str, command[1:])]
    done = subprocess.run(command, text=True, capture_output=True, timeout=120, check=False,
                          env=environment(LIBRARY, VRAMTRACE_OUT=tmp_path / "run.vrt", **extra))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = subprocess.check_output([PROGRAM, "info", "--events", "--json", "--stacks", tmp_path / "run.vrt"], text=True)
    return done.stdout, [json.loads(line) for line in lines.splitlines()]


def check(output, events, caller):
    allocs, frees = truth(output)
    assert allocs
    recorded = [event for event in events if event["kind"] == "alloc"]
    assert sorted((int(e["address"], 16), e["bytes"]) for e in recorded) == sorted((a, b) for a, b, _ in allocs)
    assert sorted(int(e["address"], 16) for e in events if e["kind"] == "free") == sorted(frees)
    for event in recorded:
        assert event["stack"], event
        assert any(caller(frame) for frame in event["stack"]), event["stack"]
        assert not any("libvramtrace" in frame["module"] for frame in event["stack"]), event["stack"]


def in_source(*names):
    """A frame of the program's own source, with a line: its debug information was read."""
    return lambda frame: frame["kind"] == "native" and pathlib.Path(frame["file"]).name in names and frame["line"] > 0


@pytest.mark.parametrize("command", [
    ["way_linked"],
    ["way_lookup", "dlsym"],
    ["way_lookup", "default"],
    ["way_lookup", "procaddress1"],
    ["way_lookup", "procaddress2"],
    ["way_lookup", "threads"],
    ["way_runtime"],
    ["way_runtime12"],
    ["way_entry_point"],
    ["way_host", PROGRAMS / "way_lookup_plugin.so"],
], ids=lambda command: "-".join(pathlib.Path(part).name for part in command))
def test_way(tmp_path, command):
    output, events = record(tmp_path, command)
    check(output, events, in_source("way.h", "way_linked.c", "way_lookup.c", "way_runtime.c", "way_entry_point.c"))


def test_static_runtime(tmp_path, static_program):
    output, events = record(tmp_path, [static_program])
    check(output, events, in_source("way_runtime.c", "way_static.cu", "way.h"))


def test_shared_runtime_is_labelled(tmp_path):
    output, events = record(tmp_path, ["way_runtime"])
    said = {(int(words[1], 16), words[-1]) for words in map(str.split, output.splitlines())
            if words[0] in ("alloc", "free")}
    assert {(int(e["address"], 16), e["label"]) for e in events if e["kind"] in ("alloc", "free")} == said
    assert {e["layer"] for e in events if e["kind"] == "alloc"} == {"driver"}


def test_ctypes(tmp_path):
    script = HERE / "programs" / "way_ctypes.py"
    output, events = record(tmp_path, [shutil.which("python3"), script])
    check(output, events, lambda frame: frame["kind"] == "python" and frame["file"] == str(script))
