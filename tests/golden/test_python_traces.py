"""Python frames in a trace, for every interpreter found, against what that interpreter says of its own stack."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import BUILD, HERE, environment

ROOT = HERE.parents[1]
LIBRARY = BUILD / "preload" / "libvramtrace.so"
PROGRAM = BUILD / "analyzer" / "vramtrace"
SCRIPT = HERE / "programs" / "python_stacks.py"
LOOKED_AT = HERE / "programs" / "python_inspections.py"
SUPPORTED = range(9, 16)


def interpreters():
    """{minor version: path}, one of each."""
    places = [pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"]
    found = [path for place in places if place.is_dir() for path in sorted(place.glob("3.*/bin/python3"))]
    cache = pathlib.Path(os.environ.get("VRAMTRACE_CACHE", pathlib.Path.home() / ".cache" / "vramtrace"))
    found += sorted(cache.glob("pythons-*/usr/bin/python3.[0-9][0-9]"))
    found += [pathlib.Path(named) for minor in range(8, 16) if (named := shutil.which(f"python3.{minor}"))]
    found += [pathlib.Path("/usr/bin/python3")]
    versions = {}
    for path in found:
        done = subprocess.run([path, "-c", "import sys; print(sys.version_info[1])"], text=True, capture_output=True)
        if done.returncode == 0 and re.fullmatch(r"\d+\n", done.stdout):
            versions.setdefault(int(done.stdout), path)
    return versions


FOUND = interpreters()


def record(tmp_path, minor):
    done = subprocess.run([FOUND[minor], SCRIPT], text=True, capture_output=True, timeout=120,
                          env=environment(LIBRARY, VRAMTRACE_OUT=tmp_path / "run.vrt"))
    assert done.returncode == 0, done.stderr
    lines = subprocess.check_output([PROGRAM, "info", "--events", "--json", "--stacks", tmp_path / "run.vrt"], text=True)
    allocs = [event for event in map(json.loads, lines.splitlines()) if event["kind"] == "alloc"]
    return [json.loads(line) for line in done.stdout.splitlines()], allocs


@pytest.mark.parametrize("minor", SUPPORTED)
def test_frames(tmp_path, minor):
    if minor not in FOUND:
        pytest.skip(f"no Python 3.{minor} here")
    said, allocs = record(tmp_path, minor)
    said = dict(map(tuple, ((address, frames) for address, frames in said)))
    assert len(allocs) == len(said) >= 35
    for event in allocs:
        seen = [[frame["file"], frame["line"], frame["function"].split(".")[-1]] for frame in event["stack"]
                if frame["kind"] == "python"]
        assert seen == said[int(event["address"], 16)]


def run_program(tmp_path, minor, program):
    """What a program of python_inspections.py says: without vramtrace, and with inspections of its objects; and what looks were made."""
    said = []
    for surroundings in (environment(None), environment(LIBRARY, VRAMTRACE_OUT=tmp_path / "run.vrt", VRAMTRACE_QUIET="1")):
        done = subprocess.run([FOUND[minor], LOOKED_AT, program], text=True, capture_output=True, timeout=120, env=surroundings)
        said.append((done.returncode, done.stdout, done.stderr))
    return said, json.loads(subprocess.check_output([PROGRAM, "info", "--json", tmp_path / "run.vrt"], text=True))["inspections"]


@pytest.mark.parametrize("program", ["signals", "tracers", "deep", "tuples", "coroutines", "forks", "state", "counts",
                                     "collections_in_time", "traced",
                                     "deliveries", "trapped"])
@pytest.mark.parametrize("minor", SUPPORTED)
def test_looks_unnoticed(tmp_path, minor, program):
    """What python_inspections.py prints is the same with inspections of its objects and without vramtrace."""
    if minor not in FOUND:
        pytest.skip(f"no Python 3.{minor} here")
    said, looks = run_program(tmp_path, minor, program)
    assert said[0][0] == 0 and said[0][1] and said[0] == said[1]
    assert looks["count"] > 0 and not looks["failure"]


def test_waits_are_counted(tmp_path):
    """Inspections that wait for the interpreter's lock cost the program that time: a quarter of it counts."""
    said, looks = run_program(tmp_path, max(set(FOUND) & set(SUPPORTED)), "waits")
    assert said[0] == said[1] == (0, "done\n", "")
    *earlier, last = (each["duration_ns"] for each in looks["each"] if "exit" not in each["reasons"])
    assert last > 50_000_000 and sum(earlier) < 4 * 100_000_000, looks  # 100 ms are lent to a life below 10 s


@pytest.mark.parametrize("minor", SUPPORTED)
def test_beside_a_main_thread_that_waits(tmp_path, minor):
    if minor not in FOUND:
        pytest.skip(f"no Python 3.{minor} here")
    said, looks = run_program(tmp_path, minor, "main_waits")
    assert said[0] == said[1] == (0, "2 True\n", "")
    assert [(each["census_ended"], each["t_ns"] < 1_500_000_000) for each in looks["each"] if "asked" in each["reasons"]] == [(True, True)]
    said, _ = run_program(tmp_path, minor, "main_waits_to_the_end")
    assert said[0] == said[1] == (0, "done\n", "")


@pytest.fixture
def late_free(tmp_path, monkeypatch):
    monkeypatch.setenv("LATE_FREE", str(tmp_path / "late.so"))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "late.so", HERE / "programs" / "late_free.c"], check=True)


@pytest.mark.parametrize("minor", SUPPORTED)
def test_freed_by_collector(tmp_path, minor, late_free):
    """What is read of the collector, against what it says itself."""
    if minor not in FOUND:
        pytest.skip(f"no Python 3.{minor} here")
    said, looks = run_program(tmp_path, minor, "freed_by_collector")
    assert said[0] == said[1]
    asked = [each["collections"] for each in looks["each"] if "asked" in each["reasons"]]  # on a slow machine one may come before
    assert asked[:1] == [int(said[0][1])]
    lines = subprocess.check_output([PROGRAM, "info", "--events", "--json", tmp_path / "run.vrt"], text=True)
    free, = (event for event in map(json.loads, lines.splitlines()) if event["kind"] == "free")
    assert "collector" in free["flags"]


@pytest.mark.parametrize("minor", SUPPORTED)
def test_freed_after_the_interpreter(tmp_path, minor, late_free, monkeypatch):
    """A free that comes when the interpreter is gone reads nothing of it (before 3.11 its state is from malloc)."""
    if minor not in FOUND:
        pytest.skip(f"no Python 3.{minor} here")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "4096")
    monkeypatch.setenv("MALLOC_TOP_PAD_", "0")
    said, looks = run_program(tmp_path, minor, "freed_late")
    assert said[0] == said[1] == (0, "done\n", "") and looks["count"] > 0
    told = json.loads(subprocess.check_output([PROGRAM, "info", "--json", tmp_path / "run.vrt"], text=True))
    assert told["counts"]["kinds"]["free"] == {"framework": 1}


@pytest.mark.parametrize("minor", SUPPORTED)
def test_looks_audited(tmp_path, minor):
    """An audit hook is told that our code is compiled, once, and nothing else of three inspections."""
    if minor not in FOUND:
        pytest.skip(f"no Python 3.{minor} here")
    (_, alone, _), (status, looked_at, error) = run_program(tmp_path, minor, "audit")[0]
    events = looked_at.splitlines()
    assert (status, error) == (0, "") and events.count("compile ('<vramtrace>',)") == 1
    events.remove("compile ('<vramtrace>',)")
    assert events == alone.splitlines() and events[-1] == "done"
    assert all(event.startswith("ctypes.call_function") for event in events[:-1])  # from 3.14 on: how the program calls us


@pytest.fixture(scope="module")
def fake_interpreter(tmp_path_factory):
    stacks, program = ROOT / "preload" / "stacks", tmp_path_factory.mktemp("fake") / "fake"
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-rdynamic", f"-I{ROOT}/preload", f"-I{ROOT}/analyzer/trace", "-o", program,
                    ROOT / "tests" / "python" / "fake_interpreter.c", *stacks.glob("python*.c"), "-pthread", "-ldl"], check=True)
    return program


@pytest.mark.parametrize("minor", [13, 14, 15])
def test_free_threaded(tmp_path, fake_interpreter, minor):
    """An interpreter made by hand as the headers of the free-threaded build say: frames, no inspection, and `info` says why."""
    done = subprocess.run([fake_interpreter, str(minor)], env=environment(LIBRARY, VRAMTRACE_OUT=tmp_path / "run.vrt"), timeout=60)
    assert done.returncode == 0
    lines = subprocess.check_output([PROGRAM, "info", "--events", "--json", "--stacks", tmp_path / "run.vrt"], text=True)
    event, = (event for event in map(json.loads, lines.splitlines()) if event["kind"] == "alloc")
    frames = [frame for frame in event["stack"] if frame["kind"] == "python"]
    assert [(frame["function"], frame["file"]) for frame in frames] == [("Layer1.forward", "/tmp/generated 1.py")] * 3
    information = json.loads(subprocess.check_output([PROGRAM, "info", "--json", tmp_path / "run.vrt"]))
    assert information["trace"]["python_free_threaded"] == 1 and information["inspections"]["count"] == 0
    text = subprocess.check_output([PROGRAM, "info", tmp_path / "run.vrt"], text=True)
    assert f"3.{minor}.10 free-threaded (objects are not inspected" in text


@pytest.mark.parametrize("minor", sorted(set(FOUND) - set(SUPPORTED)) or [0])
def test_unknown_version(tmp_path, minor):
    """Native frames only, and the trace says so."""
    if minor == 0:
        pytest.skip("no Python here whose frames are not known")
    said, allocs = record(tmp_path, minor)
    assert len(said) == len(allocs)
    for event in allocs:
        assert [frame for frame in event["stack"] if frame["kind"] == "python"] == []
        assert [frame for frame in event["stack"] if frame["kind"] == "native"]
    information = json.loads(subprocess.check_output([PROGRAM, "info", "--json", tmp_path / "run.vrt"]))
    assert information["trace"]["python_unsupported_minor"] == minor
    text = subprocess.check_output([PROGRAM, "info", tmp_path / "run.vrt"], text=True)
    assert f"3.{minor}" in text


@pytest.mark.parametrize("minor", sorted(set(FOUND) - set(SUPPORTED)) or [0])
def test_unknown_version_is_not_looked_at(tmp_path, minor):
    """Whoever asks, and whatever is new: nothing is read of an interpreter whose layout is not known."""
    if minor == 0:
        pytest.skip("no Python here whose frames are not known")
    said, looks = run_program(tmp_path, minor, "modules")
    assert said[0] == said[1] == (0, "done\n", "") and looks["count"] == 0
