"""annotate: bytes, peaks and counts of source lines, against PyTorch's counters, its history of allocations, and sums made
here from single blocks."""
import json
import os
import pathlib
import sys
from collections import defaultdict

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, list_blocks, report, run, vramtrace  # noqa: E402

# Each line that allocates says by PyTorch's counter what it added; lines that free say whose it was.
COUNTED = """
import ctypes, inspect, json, sys, torch
live, peak, times, before = {}, {}, {}, [0, 0]
def here():
    return inspect.currentframe().f_back.f_back.f_lineno
def count(line):
    now = torch.cuda.memory_allocated()
    made = torch.cuda.memory_stats().get("allocation.all.allocated", 0)
    live[line] = live.get(line, 0) + now - before[0]
    times[line] = times.get(line, 0) + made - before[1]
    peak[line] = max(peak.get(line, 0), live[line])
    before[:] = [now, made]
def made():
    count(here())
def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
keep = []
for i in range(5):
    keep.append(torch.empty(300_000 * (i + 1), dtype=torch.uint8, device="cuda")); made()
    big = torch.zeros(7_000_000, device="cuda"); line = inspect.currentframe().f_lineno; made()
    del big; count(line)
    two = [torch.ones(1000, device="cuda"), torch.ones(3_000_000, device="cuda")]; both = inspect.currentframe().f_lineno; made()
    if i == 3:
        ctypes.CDLL(None).vramtrace_mark(b"here"); at_mark = dict(live)
    two.clear(); count(both)
del keep[1:3]; live[inspect.currentframe().f_lineno] = 0; before[0] = torch.cuda.memory_allocated()
json.dump([at_mark, peak, times], sys.stdout)
"""

# Two files and PyTorch's own; every allocation is in PyTorch's history with all its Python frames.
WORK = """
import layers.block as block
import ctypes, json, os, sys, torch
torch.cuda.memory._record_memory_history(context="all", stacks="python")
model = block.Block().to("cuda")
for step in range(3):
    x = torch.randn(64, 256, device="cuda")
    with torch.no_grad():
        y = model(x)
    kept = block.deeper(5, x)
del y
ctypes.CDLL(None).vramtrace_mark(b"here")
json.dump(torch.cuda.memory._snapshot()["device_traces"][0], open(sys.argv[1], "w"))
"""
BLOCK = """
import torch
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)
    def forward(self, x):
        h = self.first(x)
        h = torch.relu(h)
        return self.second(h)
def deeper(n, x):
    if n == 0:
        return x * 2
    y = deeper(n - 1, x)
    return y + 1
"""

TRAIN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.ReLU(), torch.nn.Linear(512, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    x = torch.randn(256, 128, device="cuda")
    y = model(x)
    loss = (y * y).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def annotate(trace, *arguments):
    device, = json.loads(vramtrace("annotate", "--json", trace, *arguments).stdout)["devices"]
    return device


def lines_of(trace, file, *arguments):
    file, = annotate(trace, file, *arguments)["files"]
    return {line["line"]: line for line in file["lines"]}


def older(path, text):
    """A source file from before the trace."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (1_500_000_000, 1_500_000_000))
    return path


def test_lines_as_pytorch_counts_them(tmp_path):
    script = older(tmp_path / "counted.py", COUNTED)
    trace = tmp_path / "x.vrt"
    at_mark, peak, times = json.loads(run([PYTHON, script], trace).stdout)
    lines = lines_of(trace, "counted.py", "--at", "mark:here")
    text = COUNTED.splitlines()
    expected = {int(line): count for line, count in times.items() if count}
    assert len(expected) == 3 and {line: lines[line]["allocations"] for line in expected} == expected
    assert {line: lines[line]["bytes"] for line in expected} == {line: at_mark[str(line)] for line in expected}
    assert lines[min(expected)]["peak_bytes"] == peak[str(min(expected))]
    assert {line: lines[line]["text"] for line in lines} == {line: text[line - 1] for line in lines}
    # the counter was read after both of a line's allocations, and the larger one came last
    assert all(lines[line]["peak_bytes"] == peak[str(line)] for line in expected)


def from_history(history, folder):
    """Of each (file, line): bytes alive at the mark, the most at once, allocations; as own, and through it."""
    uses = {kind: defaultdict(lambda: [0, 0, 0]) for kind in ("own", "through")}
    alive = {}
    for event in history:
        if event["action"] == "alloc":
            frames = [(frame["filename"], frame["line"]) for frame in event["frames"]]
            mine = [frame for frame in frames if frame[0].startswith(folder)]
            keys = {("own", mine[0]), ("own", (mine[0][0], "file"))}
            keys |= {("through", frame) for frame in frames} | {("through", (file, "file")) for file, _ in frames}
            alive[event["addr"]] = keys
            for kind, key in keys:
                use = uses[kind][key]
                use[0] += event["size"]
                use[1] = max(use[:2])
                use[2] += 1
        elif event["action"] == "free_completed":
            for kind, key in alive.pop(event["addr"]):
                uses[kind][key][0] -= event["size"]
    return uses


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work").resolve()
    older(folder / "work.py", WORK)
    older(folder / "layers" / "block.py", BLOCK)
    run([PYTHON, folder / "work.py", folder / "history.json"], folder / "x.vrt", PYTHONPATH=str(folder))
    return folder, from_history(json.loads((folder / "history.json").read_text()), str(folder))


def as_listed(use):
    return [use["bytes"], use["peak_bytes"], use["allocations"]]


@pytest.mark.parametrize("file", ["work.py", "layers/block.py", "torch/nn/modules/linear.py", "torch/nn/modules/module.py"])
def test_lines_as_in_pytorchs_history(work, file):
    folder, uses = work
    listed, = annotate(folder / "x.vrt", file, "--at", "mark:here")["files"]
    path = listed["file"]
    for kind in ("own", "through"):
        expected = {line: use for (name, line), use in uses[kind].items() if name == path and line != "file"}
        got = {line["line"]: as_listed(line["through"] if kind == "through" else line) for line in listed["lines"]}
        assert {line: use for line, use in got.items() if use[2]} == expected
        whole = listed["through"] if kind == "through" else listed
        assert as_listed(whole) == uses[kind].get((path, "file"), [0, 0, 0])
    assert listed["lines"] and listed["library"] == file.startswith("torch")
    assert listed["source"] == "read"
    if file == "layers/block.py":  # recursion: five frames, one allocation
        recursion = next(line for line in listed["lines"] if "deeper(n - 1" in line["text"])
        assert recursion["allocations"] == 0 and recursion["through"]["allocations"] == 5 * 3


def test_files_and_what_has_no_line_sum_to_use(work):
    folder, uses = work
    for moment in ("peak", "end", "mark:here"):
        device = annotate(folder / "x.vrt", "--at", moment)
        state = report(folder / "x.vrt", "--at", moment)["devices"][0]["at"]
        used = sum(state["categories"].values()) - state["categories"]["cached"] - state["categories"]["context"]
        assert device["at"]["used_bytes"] == used > 0
        assert sum(file["bytes"] for file in device["files"]) + device["no_line"]["bytes"] == used == device["all"]["bytes"]
        assert sum(file["allocations"] for file in device["files"]) + device["no_line"]["allocations"] == \
            device["all"]["allocations"]
    assert {file["name"] for file in device["files"]} >= {"layers/block.py"}
    text = vramtrace("annotate", folder / "x.vrt", "block.py", "--width", 80).stdout
    assert "h = torch.relu(h)" in text and "self.second(h)" in text


def test_peaks_by_phase(tmp_path):
    """Of a training run with backward: each line's largest sum while the run was in each phase, from single blocks."""
    script = older(tmp_path / "train.py", TRAIN)
    trace = tmp_path / "x.vrt"
    run([PYTHON, script], trace)
    lines = lines_of(trace, "train.py", "--by", "phase")
    phases = list_blocks(trace, "phases")
    phase_at = [span["phase"] for span in phases for _ in range(span["last"] - span["first"] + 1)]
    changes = defaultdict(lambda: [0] * (len(phase_at) + 1))
    count = defaultdict(int)
    for block in list_blocks(trace):
        frames = [frame for frame in block["forward"] or block["own"] if frame[0] == str(script)]
        if not frames:
            continue
        count[frames[0][1]] += 1
        changes[frames[0][1]][block["alloc_event"]] += block["bytes"]
        changes[frames[0][1]][min(block["free_event"], len(phase_at))] -= block["bytes"]
    assert {line: lines[line]["allocations"] for line in count} == count
    for line, deltas in changes.items():
        most, now = defaultdict(int), 0
        for phase, delta in zip(phase_at, deltas):
            now += delta
            most[phase] = max(most[phase], now)
        assert lines[line]["peak_by_phase"] == {phase: peak for phase, peak in most.items() if peak}
    forward = next(line for line, listed in lines.items() if "model(x)" in listed["text"])
    assert set(lines[forward]["peak_by_phase"]) >= {"forward", "backward", "optimizer"}  # its gradients count there too
    text = vramtrace("annotate", trace, "train.py", "--by", "phase", "--width", 150).stdout
    assert {"forward", "backward", "optimizer"} <= set(next(row for row in text.splitlines() if row.startswith("line")).split())
    by_line = report(trace)["devices"][0]["peak"]["lines"]
    held = defaultdict(int)
    for group in by_line:
        held[group["line"]] += group["bytes"]
    assert {line: listed["bytes"] for line, listed in lines.items() if listed["bytes"]} == {k: v for k, v in held.items() if k}
