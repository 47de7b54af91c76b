"""--redact: what others may read says nothing of folders, arguments, hosts and launchers; and all numbers stay."""
import gzip
import json
import os
import pathlib
import sqlite3
import subprocess
import sys

import page_data
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, ENVIRONMENT, run  # noqa: E402

PROGRAM = BUILD / "analyzer/vramtrace"
SCRIPT = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import helper_of_mine
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)
for _ in range(5):
    helper_of_mine.allocate(cuda, 2 << 20)
helper_of_mine.allocate(cuda, 1 << 60)
"""
HELPER = """
import ctypes
def allocate(cuda, size):
    cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size))
"""
COMMANDS = ["report", "report --json", "report --full", "report --by stack", "leaks --full", "leaks --json", "oom --full", "oom --json",
            "frag --json", "steps", "timeline --json", "info", "info --json", "info --events --stacks", "html -o OUT",
            "diff TRACE@end", *(f"export --format {form} -o OUT" for form in
                                ("perfetto", "pprof", "speedscope", "folded", "memory-viz", "sqlite", "csv --table frames"))]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secretproject") / "secretfolder"
    library = folder / "secretlibrary"
    library.mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    (library / "helper_of_mine.py").write_text(HELPER)
    named = ["unshare", "-u", "sh", "-c", 'hostname secrethost && exec "$@"', "sh"] if os.geteuid() == 0 else []
    run([*named, sys.executable, folder / "train.py", library, "--token", "secrettoken"], folder / "x.vrt",
        MASTER_ADDR="secretnode", RANK="0", WORLD_SIZE="1", MASTER_PORT="29500", cwd=folder)
    return folder / "x.vrt"


def output(command, trace, tmp_path, *more):
    out = tmp_path / "out"
    words = [word.replace("TRACE", str(trace)).replace("OUT", str(out)) for word in command.split()]
    done = subprocess.run([PROGRAM, *words, *more, trace], capture_output=True, env=ENVIRONMENT)
    assert done.returncode in (0, 1), done.stderr
    if command.startswith("html"):
        page = page_data.read(out)[1][0]
        return str([page.head, *(page.document(name) for name in ("report", "oom", "leaks"))]).encode()
    written = out.read_bytes() if out.exists() else b""
    return done.stdout + (gzip.decompress(written) if written.startswith(b"\x1f\x8b") else written)


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_of_ones_own_is_told(command, trace, tmp_path):
    hidden = [b"secret", str(pathlib.Path.home()).encode() + b"/", str(BUILD).encode()]
    told, open_ = output(command, trace, tmp_path, "--redact"), output(command, trace, tmp_path)
    assert [word for word in hidden if word in told] == []
    assert b"train.py" in told or b"train.py" not in open_


def test_the_same_numbers(trace, tmp_path):
    whole, hidden = (json.loads(output("report --json", trace, tmp_path, *more)) for more in ((), ("--redact",)))

    def numbers(part):
        if isinstance(part, dict):
            return {name: numbers(value) for name, value in part.items()}
        return [numbers(value) for value in part] if isinstance(part, list) else part if not isinstance(part, str) else None
    assert numbers(whole) == numbers(hidden)
    (tmp_path / "x.sqlite").write_bytes(output("export --format sqlite -o OUT", trace, tmp_path, "--redact"))
    files = [row[0] for row in sqlite3.connect(tmp_path / "x.sqlite").execute("SELECT DISTINCT file FROM frames WHERE file LIKE '%.py'")]
    assert len(files) == len(set(files)) >= 2 and all(file.startswith("/…") for file in files)


def test_what_runs_is_told(trace, tmp_path):
    assert json.loads(output("info --json", trace, tmp_path, "--redact"))["trace"]["command"].split()[1:] == ["train.py", "…"]
