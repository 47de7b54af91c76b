"""`export --format memory-viz` against the snapshot that PyTorch takes itself in the same process, and what reads snapshots."""
import collections
import pathlib
import pickle
import sqlite3
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, report, run, vramtrace  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "train_script.py"
OOM_SCRIPT = """
import torch
held = [torch.empty(1 << 28, device="cuda", dtype=torch.uint8)]
try:
    torch.empty(1 << 50, device="cuda", dtype=torch.uint8)
except torch.OutOfMemoryError:
    print("out of memory")
"""
BLOCK_ROUNDING = 512
UNSPLIT_REST = 1 << 20  # a remainder up to this stays with the block
CASES = {"mlp_adam": {}, "transformer_amp": {}, "transformer_amp, expandable": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}}


def snapshot_of(trace, *options):
    target = trace.with_suffix(".pickle")
    vramtrace("export", "--format", "memory-viz", "-o", target, *options, trace)
    return pickle.loads(target.read_bytes())


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    """(ours at the moment when PyTorch took its own, PyTorch's own, the trace)"""
    folder = tmp_path_factory.mktemp("viz")
    run([PYTHON, SCRIPT, request.param.split(",")[0], "--steps", 3, "--snapshot", folder / "theirs", "--stacks", "python"],
        folder / "run.vrt", **CASES[request.param])
    return snapshot_of(folder / "run.vrt", "--at", "mark:snapshot"), pickle.loads((folder / "theirs").read_bytes()), folder / "run.vrt"


def cached(snapshot):
    """The caching allocator's segments, by device and address."""
    return {(segment["device"], segment["address"]): segment for segment in snapshot["segments"] if "vramtrace_kind" not in segment}


def actions(snapshot, mapped):
    """PyTorch's own actions: without memory that only we see, and (by mapping, one of theirs can be several of ours) segments."""
    direct = {segment["address"] for segment in snapshot["segments"] if "vramtrace_kind" in segment}
    return [entry for entry in snapshot["device_traces"][0] if entry["action"] != "snapshot" and entry["addr"] not in direct and
            not (mapped and entry["action"].startswith("segment"))]


def python_frames(entry):
    return [frame for frame in entry["frames"] if frame["filename"].endswith(".py") or frame["filename"].startswith("<")]


def test_same_segments_and_blocks(both):
    ours, theirs, _ = both
    ours, theirs = cached(ours), cached(theirs)
    assert ours.keys() == theirs.keys() and len(ours) >= 2
    for key, segment in ours.items():
        for name in ("total_size", "allocated_size", "active_size", "stream", "segment_type", "segment_pool_id", "is_expandable"):
            assert segment[name] == theirs[key][name], (key, name)
        assert theirs[key].keys() <= segment.keys()
        told = [(block["address"], block["size"], block["state"]) for block in segment["blocks"]]
        assert told == [(block["address"], block["size"], block["state"]) for block in theirs[key]["blocks"]]
        for mine, its in zip(segment["blocks"], theirs[key]["blocks"]):
            if mine["state"] == "active_allocated":
                assert its["requested_size"] <= mine["requested_size"] <= mine["size"]
                assert python_frames(mine) == its["frames"]


def test_same_actions_in_order(both):
    ours, theirs, _ = both
    mapped = any(segment["is_expandable"] for segment in theirs["segments"])
    mine, its = actions(ours, mapped), actions(theirs, mapped)
    assert len(its) > 300 and len(mine) == len(its)
    compared = 0
    for a, b in zip(mine, its):
        assert (a["action"], a["addr"], a["stream"]) == (b["action"], b["addr"], b["stream"])
        assert b.keys() <= a.keys() and abs(a["time_us"] - b["time_us"]) < 60_000_000
        if a["action"].startswith("segment"):
            assert a["size"] == b["size"]
        else:  # theirs is what was asked; the block is that rounded up, and may keep an unsplit rest
            rounded = (max(b["size"], 1) + BLOCK_ROUNDING - 1) // BLOCK_ROUNDING * BLOCK_ROUNDING
            assert b["size"] <= a["size"] <= rounded + UNSPLIT_REST
        if a["action"] in ("alloc", "segment_alloc") and b["frames"]:
            assert python_frames(a) == b["frames"]
            compared += 1
    assert compared > 50


def test_same_mapped_memory(both):
    """Expandable segments: PyTorch maps several pages by one action; the sums at each block's allocation are the same."""
    def sums(snapshot):
        size, told = 0, []
        for entry in snapshot["device_traces"][0]:
            size += {"segment_map": 1, "segment_unmap": -1}.get(entry["action"], 0) * entry["size"]
            if entry["action"] == "alloc" and entry["addr"] not in direct:
                told.append(size)
        return told
    ours, theirs, _ = both
    direct = {segment["address"] for segment in ours["segments"] if "vramtrace_kind" in segment}
    assert sums(ours) == sums(theirs)


def test_categories(both):
    """What was alive, by category, is the report's."""
    ours, _, trace = both
    told = report(trace, "--at", "mark:snapshot")["devices"][0]["at"]["categories"]
    sums = collections.Counter()
    for segment in ours["segments"]:
        for block in segment["blocks"]:
            sums[block.get("category", "cached")] += block["size"]
    assert sums == {name: size for name, size in told.items() if size}


def test_the_peak_of_the_actions_is_the_peak(both, tmp_path):
    """Tools such as Mosaic add what is allocated and take away what is freed: in use by what was asked, as far as it is known."""
    _, _, trace = both
    vramtrace("export", "--format", "sqlite", "-o", tmp_path / "x.sqlite", trace)
    told = sqlite3.connect(tmp_path / "x.sqlite").execute("SELECT MAX(block_bytes - rounding_bytes) FROM instants").fetchone()[0]
    used, peak = 0, 0
    for entry in actions(snapshot_of(trace), mapped=True):
        used += {"alloc": 1, "free_completed": -1}.get(entry["action"], 0) * entry["size"]
        peak = max(peak, used)
    assert peak == told > 0


def test_a_viewer_finds_every_block_in_a_segment(both):
    """Viewers play the actions. Where they end must be the segments and blocks that the snapshot has."""
    def covered(start, end):
        while start < end:
            inside = [base + size for base, size in spaces.items() if base <= start < base + size]
            if not inside:
                return False
            (start,) = inside
        return True
    ours, _, _ = both
    blocks, spaces = {}, {}
    for entry in ours["device_traces"][0]:
        if entry["action"] == "alloc":
            assert entry["addr"] not in blocks and covered(entry["addr"], entry["addr"] + entry["size"])
            blocks[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_completed":
            assert blocks.pop(entry["addr"]) == entry["size"]
        elif entry["action"] in ("segment_alloc", "segment_map"):
            spaces[entry["addr"]] = entry["size"]
        elif entry["action"] in ("segment_free", "segment_unmap"):
            assert spaces.pop(entry["addr"]) == entry["size"]
    assert blocks == {block["address"]: block["requested_size"] for segment in ours["segments"] for block in segment["blocks"]
                      if block["state"] == "active_allocated"}
    assert sum(spaces.values()) == sum(segment["total_size"] for segment in ours["segments"])
    assert all(covered(segment["address"], segment["address"] + segment["total_size"]) for segment in ours["segments"])
    # With categories, the viewer in the browser must find one called unknown.
    assert "unknown" in {entry.get("category") for entry in ours["device_traces"][0]}


@pytest.mark.parametrize("options", [["--at", "peak"], []], ids=["peak", "end"])
def test_pytorch_reads_it(both, options, tmp_path):
    """torch.cuda._memory_viz: its sums (with assertions of its own), its text of the trace, its pages."""
    target = tmp_path / "x.pickle"
    vramtrace("export", "--format", "memory-viz", "-o", target, *options, both[2])
    script = ("import pickle, sys, torch.cuda._memory_viz as viz\n"
              "snapshot = pickle.load(open(sys.argv[1], 'rb'))\n"
              "print(viz.segsum(snapshot)); print(viz.trace(snapshot))\n"
              "lines = lambda text: text\n"
              "print(len(viz.memory(snapshot, lines)), len(viz.segments(snapshot, lines)))\n"
              "assert '<html' in viz.trace_plot(snapshot).lower() or 'script' in viz.trace_plot(snapshot)\n"
              "assert 'script' in viz.segment_plot(snapshot)\n")
    done = run([PYTHON, "-c", script, target], preload=False)
    assert "total_allocated" in done.stdout


def test_out_of_memory(tmp_path):
    assert "out of memory" in run([PYTHON, "-c", OOM_SCRIPT], tmp_path / "run.vrt").stdout
    entries = snapshot_of(tmp_path / "run.vrt")["device_traces"][0]
    (refused,) = [entry for entry in entries if entry["action"] == "oom"]
    assert refused["size"] == 1 << 50 and "addr" not in refused and refused["device_free"] > 0
    assert refused["frames"] and "compile_context" in refused
    blocks = [entry for entry in entries if entry["action"] == "alloc" and entry["size"] == 1 << 28]
    assert entries.index(blocks[0]) < entries.index(refused)


TWO_DEVICES = """
import ctypes, torch
held = [torch.ones(size, device=f"cuda:{device}") for device in (0, 1) for size in (1 << 20, 3 << 20)]
pinned = torch.ones(1 << 20).pin_memory()
del held[0]
ctypes.CDLL(None).vramtrace_mark(b"here")
for device in (0, 1):
    print(torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device))
"""


def test_two_devices(tmp_path):
    """Each device has its list of actions, and its segments; page-locked memory is of neither."""
    done = run([PYTHON, "-c", TWO_DEVICES], tmp_path / "run.vrt", VRAMTRACE_STANDIN_DEVICES="2")
    ours = snapshot_of(tmp_path / "run.vrt", "--at", "mark:here")
    assert len(ours["device_traces"]) == 2
    for device, line in enumerate(done.stdout.splitlines()):
        allocated, reserved = map(int, line.split())
        segments = [segment for key, segment in cached(ours).items() if key[0] == device]
        assert (sum(segment["allocated_size"] for segment in segments), sum(segment["total_size"] for segment in segments)) == (
            allocated, reserved)
        assert sum(entry["action"] == "alloc" for entry in ours["device_traces"][device]) >= 2
    assert {segment.get("vramtrace_kind") for segment in ours["segments"]} == {None, "context"}
    first = snapshot_of(tmp_path / "run.vrt", "--at", "mark:here", "--device", "1")
    assert first["device_traces"] == [[], ours["device_traces"][1]] and {segment["device"] for segment in first["segments"]} == {1}
