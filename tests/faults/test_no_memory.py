"""One allocation fails, or all from one on: what a command writes is whole, or nothing is there and the exit status is 5."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from test_cli import PROGRAM  # noqa: E402
from test_export_stacks import make  # noqa: E402

FAILING = PROGRAM.resolve().parents[1] / "tests" / "faults" / "no_memory.so"
POINTS = 20
FORMATS = ["perfetto", "pprof", "speedscope", "folded", "memory-viz", "csv", "sqlite"]
COMMANDS = [["html"], ["report"], ["report", "--json"], ["timeline"], ["steps"], ["frag"], ["oom"], ["leaks"], ["annotate"],
            ["annotate", "--json"], ["list"], *(["export", "--format", form] for form in FORMATS)]

pytestmark = pytest.mark.skipif(b"__asan_init" in PROGRAM.read_bytes(), reason="a sanitizer has its own malloc")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return make(tmp_path_factory.mktemp("made") / "x.vrt")[0]


def run(command, trace, out, **settings):
    environment = {**os.environ, "LC_ALL": "C", "LD_PRELOAD": str(FAILING), **settings}
    return subprocess.run([PROGRAM.resolve(), *command, "-o", out, trace], env=environment, capture_output=True, text=True,
                          timeout=60)


def content(path):
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_whole_or_not_there(command, trace, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    done = run(command, trace, whole, FAIL_AT="0")
    assert done.returncode == 0
    count, wanted = int(done.stderr.split()[-1]), content(whole)
    for at in range(1, count, max(1, count // POINTS)):
        for settings in ({}, {"FAIL_ON": "1"}):
            done = run(command, trace, out, FAIL_AT=str(at), **settings)
            if done.returncode:
                assert done.returncode == 5 and len(done.stderr.splitlines()) == 1, (at, done)
            if done.returncode == 0 or out.exists():  # there may be no memory to say what was written
                assert content(out) == wanted, at
                shutil.rmtree(out) if out.is_dir() else out.unlink()
            assert [path.name for path in tmp_path.iterdir()] == ["whole"], at
