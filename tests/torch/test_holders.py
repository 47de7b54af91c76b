"""Who keeps what at an inspection (`report --by holder`), against what the script itself put there."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, report, run, vramtrace  # noqa: E402

BEGIN = """
import ctypes, json, sys, torch
from torch import nn
MIB = 1 << 20
def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
def look():
    ctypes.CDLL(None).vramtrace_inspect(b"here")
    print(json.dumps(torch.cuda.memory_allocated()))
"""
# {begin of a holder's name: MiB that it keeps}
PROGRAMS = {
    "without steps": ("""
cache = {number: take(2) for number in range(5)}
class Server:
    def __init__(self):
        self.log = []
    def answer(self):
        passing = take(1)
        self.log.append(passing)
        look()
server = Server()
server.log.append(take(3))
server.answer()
""", {"dict 'cache' in __main__": 10, "list Server.log": 4}),
    "an except block": ("""
def fails():
    lost = take(7)
    raise ValueError("no")
kept = [take(2)]
try:
    fails()
except ValueError:
    look()
""", {"list 'kept' in __main__": 2, "traceback of ValueError": 7}),
    "an interactive session": ("""
sys.ps1 = ">>> "
def fails():
    lost = take(5)
    raise ValueError("no")
try:
    fails()
except ValueError as error:
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
look()
""", {"traceback of ValueError": 5}),
    "a stored traceback": ("""
def fails():
    lost = take(6)
    raise ValueError("no")
class Shell:
    def run(self):
        try:
            fails()
        except ValueError as error:
            self.tb = error.__traceback__
shell = Shell()
shell.run()
look()
""", {"traceback of an exception": 6}),
    "graphs": ("""
weight = take(1).float().requires_grad_()  # 4 MiB; the bytes are gone when it is made
torch.cuda.synchronize()
history = [(weight * 2).exp().sum() for _ in range(3)]  # exp() keeps its result of 4 MiB
look()
""", {"list 'history' in __main__": 3 * 4}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(tmp_path, name):
    body, expected = PROGRAMS[name]
    script = tmp_path / "script.py"
    script.write_text(BEGIN + body)
    allocated = json.loads(run([PYTHON, script], tmp_path / "x.vrt").stdout.splitlines()[-1])
    device, = report(tmp_path / "x.vrt", "--by", "holder", "--at", "mark:here")["devices"]
    table = device["holders"]
    assert table["unknown"] is None and table["bytes"] == allocated
    assert table["held_bytes"] == sum(row["bytes"] for row in table["rows"]) <= allocated
    assert table["bytes"] - table["held_bytes"] == sum(table["rest_categories"].values())
    for begin, mib in expected.items():
        row, = [row for row in table["rows"] if row["holder"].startswith(begin)]
        assert abs(row["bytes"] - (mib << 20)) < 4096, table["rows"]  # losses of 512 B
    assert [row["bytes"] for row in table["rows"]] == sorted((row["bytes"] for row in table["rows"]), reverse=True)
    text = " ".join(vramtrace("report", "--by", "holder", "--at", "mark:here", "--width", "160", tmp_path / "x.vrt").stdout.split())
    assert "Kept alive by" in text and next(iter(expected)) in text


def test_nobody_is_named_without_a_search(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(BEGIN + "kept = [take(2)]\n")
    run([PYTHON, script], tmp_path / "x.vrt", VRAMTRACE_INSPECT="0")
    table = report(tmp_path / "x.vrt", "--by", "holder")["devices"][0]["holders"]
    assert table["rows"] == [] and table["unknown"] == "the program was never inspected" and table["inspection"] is None
    assert "is not known: the program was never inspected" in " ".join(
        vramtrace("report", "--by", "holder", tmp_path / "x.vrt").stdout.split())
