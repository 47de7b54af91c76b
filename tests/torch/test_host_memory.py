"""Page-locked host memory: its peak, time and lines, against PyTorch's own count of it."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, report, run, vramtrace  # noqa: E402

BEGIN = """
import ctypes, json, torch
torch.ones(1, device="cuda")
def peak():
    print(json.dumps(torch.cuda.host_memory_stats()["allocated_bytes.peak"]))
"""
# name: (program, the text of the line that has most, its share of the peak)
PROGRAMS = {
    "one buffer": ("""
gpu = torch.empty(1100 * 1024 * 1024 // 2, dtype=torch.float16, device="cuda")
cpu = torch.empty(gpu.shape, dtype=gpu.dtype, pin_memory=True)  # most
cpu.copy_(gpu)
peak()
""", 1),
    "a loader": ("""
def batches(count):
    for _ in range(count):
        yield torch.randn(256, 1024).pin_memory()  # most
kept = list(batches(12))
small = torch.empty(1 << 18, dtype=torch.uint8, pin_memory=True)
peak()
""", 12 * 4 / (12 * 4 + 1)),
    "registered memory": ("""
host = torch.empty(3 << 20, dtype=torch.uint8)
before = torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True)
assert torch.cuda.cudart().cudaHostRegister(host.data_ptr(), host.nbytes, 0) == 0  # most
print(json.dumps(host.nbytes + before.nbytes))
""", 3 / 4),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(tmp_path, name):
    body, share = PROGRAMS[name]
    script = tmp_path / "script.py"
    script.write_text(BEGIN + body)
    truth = json.loads(run([PYTHON, script], tmp_path / "x.vrt").stdout.splitlines()[-1])
    line = next(number for number, text in enumerate(script.read_text().splitlines(), 1) if text.endswith("# most"))
    host = report(tmp_path / "x.vrt")["page_locked"]
    assert host["peak_bytes"] == host["shown_bytes"] == truth
    assert sum(row["bytes"] for row in host["lines"]) == sum(row["bytes"] for row in host["stacks"]) == truth
    assert host["lines"][0]["line"] == line and host["lines"][0]["bytes"] == share * truth
    text = " ".join(vramtrace("report", "--width", "160", tmp_path / "x.vrt").stdout.split())
    assert "Page-locked host memory: peak" in text and f"script.py:{line} " in text.split("Page-locked host memory: peak")[1]
    for by in ("line", "stack"):
        text = vramtrace("report", "--by", by, "--width", "160", tmp_path / "x.vrt").stdout
        assert f"script.py:{line} " in text.split(f"Page-locked host memory by {by}")[1]


def test_what_no_step_shows(tmp_path):
    """Without steps: what was allocated and never freed, by line, page-locked memory included."""
    script = tmp_path / "script.py"
    script.write_text(BEGIN + """
kept = []
for number in range(20):
    kept.append(torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True))  # most
""")
    run([PYTHON, script], tmp_path / "x.vrt")
    device, = json.loads(vramtrace("leaks", "--json", tmp_path / "x.vrt").stdout)["devices"]
    assert not device["leaks_judged"]
    row = device["remaining"][0]
    assert (row["category"], row["bytes"], row["blocks"]) == ("host_pinned", 20 << 20, 20)
    assert row["line"]["line"] == 1 + next(number for number, text in enumerate(script.read_text().splitlines()) if "# most" in text)


def test_a_leak_fails_the_check(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(BEGIN + """
kept = []
for number in range(20):
    ctypes.CDLL(None).vramtrace_mark(b"vramtrace.step")
    kept.append(torch.empty(2 << 20, dtype=torch.uint8, pin_memory=True))
""")
    run([PYTHON, script], tmp_path / "x.vrt")
    leak, = json.loads(vramtrace("leaks", "--json", tmp_path / "x.vrt").stdout)["devices"][0]["leaks"]
    assert leak["leak"] and leak["bytes_per_step"] == 2 << 20
    assert vramtrace("check", "--max-leak", "0", tmp_path / "x.vrt", check=False).returncode == 1
