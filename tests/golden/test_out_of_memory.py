"""The analyzer with too little memory: it ends with one line and status 5, and leaves nothing half-written."""
import resource
import subprocess

import pytest

from harness import ANALYZER
from trace_file import ALLOC, FRAMEWORK, DRIVER, TraceFile

MIB = 1 << 20
COMMANDS = {
    "report": (["report"], "report.txt"), "leaks as JSON": (["leaks", "--json"], "leaks.json"), "page": (["html"], "page.html"),
    "SQLite": (["export", "--format", "sqlite"], "run.sqlite"), "CSV": (["export", "--format", "csv"], "tables"),
    "pprof": (["export", "--format", "pprof"], "run.pb.gz"), "memory-viz": (["export", "--format", "memory-viz"], "run.pickle"),
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    made = TraceFile()
    made.process([b"python", b"train.py"], b"/w", b"/usr/bin/python3")
    made.event(ALLOC, DRIVER, 1 << 40, 1 << 32)
    for number in range(40_000):
        made.event(ALLOC, FRAMEWORK, (1 << 40) + 512 * number, 512 + 512 * (number % 3 == 0), after_ns=1000)
    path = tmp_path_factory.mktemp("memory") / "run.vrt"
    made.write(path)
    return path


def limited(mebibytes, command):
    return subprocess.run([ANALYZER, *map(str, command)], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes * MIB, mebibytes * MIB)))


@pytest.mark.parametrize("name", COMMANDS)
def test_whole_or_not_at_all(trace, tmp_path, name):
    words, target = COMMANDS[name]
    target = tmp_path / target
    seen = set()
    for mebibytes in range(20, 140, 6):
        done = limited(mebibytes, [*words, trace, "-o", target])
        if done.returncode == 127:  # too little for the loader
            continue
        seen.add(done.returncode)
        left = {path.name for path in tmp_path.iterdir()}
        if done.returncode == 0:
            assert left == {target.name}, mebibytes
            target.unlink() if target.is_file() else [*map(lambda path: path.unlink(), target.iterdir()), target.rmdir()]
            continue
        assert done.returncode == 5 and not left, (mebibytes, done.returncode, left, done.stderr)
        assert len(done.stderr.splitlines()) == 1 and "out of memory with" in done.stderr, (mebibytes, done.stderr)
    assert seen == {0, 5}


def test_an_older_file_stays(trace, tmp_path):
    target = tmp_path / "report.txt"
    target.write_text("as it was")
    assert limited(30, ["report", trace, "-o", target]).returncode == 5
    assert target.read_text() == "as it was" and len(list(tmp_path.iterdir())) == 1
