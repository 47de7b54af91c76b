"""The hot path does not grow by the way: its instructions are counted, since time would say more about the machine. After a
change that is worth its cost, put the new counts here (tests/bench/instructions.py prints them)."""
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
import instructions  # noqa: E402

PYTHON = "/usr/bin/python3"
# Instructions for an allocation and its free, by what is called and the Python frames above it. CPython 3.11, gcc 12, x86_64.
COUNTS = {("driver", 3): 1576, ("block", 3): 1314, ("block", 23): 1854, ("block", 60): 2853}
MOST, LEAST = 1.10, 0.85


def missing():
    compiler = subprocess.run(["strings", "-n", "8", instructions.LIBRARY], capture_output=True, text=True).stdout
    version = subprocess.run([PYTHON, "-V"], capture_output=True, text=True).stdout if pathlib.Path(PYTHON).exists() else ""
    return ("valgrind" if not shutil.which("valgrind") else
            "CPython 3.11" if "3.11." not in version else
            "x86_64" if platform.machine() != "x86_64" else
            "gcc 12" if "GCC: (Debian 12" not in compiler else
            "the stand-in" if not os.environ.get("VRAMTRACE_RUN") else "")


@pytest.mark.skipif(missing() != "", reason=f"counted with other things: not here {missing()}")
@pytest.mark.parametrize("kind,frames", COUNTS)
def test_instructions(kind, frames):
    share = instructions.per_pair(kind, frames, PYTHON) / COUNTS[kind, frames]
    assert share < MOST
    assert share > LEAST, "fewer than written here: write the new counts, so that they cannot grow again"
