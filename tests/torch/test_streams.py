"""The stream of segments, and what is said of streams, against PyTorch's own snapshot and counters; remedies as measured."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, run, vramtrace  # noqa: E402

MARK = """
import ctypes, json, sys, torch
def here():
    ctypes.CDLL(None).vramtrace_mark(b"here")
    json.dump({"segments": torch.cuda.memory_snapshot(), "allocated": torch.cuda.memory_allocated(),
               "peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.memory_reserved()}, sys.stdout)
"""

# Streams of PyTorch's pools with both priorities, the default one, and some without tensors.
MIXED = MARK + """
kept = []
for n in range(7):
    with torch.cuda.stream(torch.cuda.Stream(priority=-(n % 2))):
        kept.append(torch.empty((3 + n) << 20, dtype=torch.uint8, device="cuda"))
        small = torch.empty(300 << n, dtype=torch.uint8, device="cuda")
        if n % 3 == 0:
            kept.pop()
kept.append(torch.empty(30 << 20, dtype=torch.uint8, device="cuda"))
here()
"""

# Weights are packed on new streams each time; with "few" on the same two.
NEW = MARK + """
few = [torch.cuda.Stream() for _ in range(2)]
weights = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
for n in range(10):
    for stream in few if "few" in sys.argv else [torch.cuda.Stream() for _ in range(2)]:
        with torch.cuda.stream(stream):
            packed = torch.empty(48 << 20, dtype=torch.uint8, device="cuda")
            del packed
here()
"""

# A server that answers each request on another stream of twelve.
SERVED = MARK + """
net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).cuda().eval()
streams = [torch.cuda.Stream() for _ in range(12)]
with torch.inference_mode():
    for n in range(36):
        with torch.cuda.stream(streams[n % 12]):
            net(torch.ones(8, 256, device="cuda"))
here()
"""

# Two streams take turns; that is how programs overlap copies with work.
TWO = MARK + """
side = torch.cuda.Stream()
for n in range(8):
    with torch.cuda.stream(side):
        data = torch.empty(40 << 20, dtype=torch.uint8, device="cuda")
    work = torch.empty(60 << 20, dtype=torch.uint8, device="cuda")
    del data, work
here()
"""


def record(tmp_path, script, *arguments, **settings):
    trace = tmp_path / f"{len(list(tmp_path.iterdir()))}.vrt"
    truth = json.loads(run([PYTHON, "-W", "ignore", "-c", script, *arguments], trace, **settings).stdout)
    return trace, truth


def frag(trace):
    device, = json.loads(vramtrace("frag", "--json", "--at", "mark:here", trace).stdout)["devices"]
    return device


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_segments_have_their_streams(tmp_path, settings):
    trace, truth = record(tmp_path, MIXED, PYTORCH_ALLOC_CONF=settings, PYTORCH_CUDA_ALLOC_CONF=settings)
    theirs = {segment["address"]: segment["stream"] for segment in truth["segments"]}
    device = frag(trace)
    ours = {segment["address"]: segment["stream"] for segment in device["segments"]}
    assert theirs.keys() == ours.keys() and len(set(theirs.values())) == 8
    assert {stream for address, stream in ours.items() if theirs[address] == 0} == {0}
    assert len(set(zip(theirs.values(), (ours[address] for address in theirs)))) == 8  # one of ours for each of theirs
    idle = set(theirs.values()) - {segment["stream"] for segment in truth["segments"] if segment["active_size"]}
    assert (device["streams"], device["idle_streams"]) == (8, len(idle))
    assert device["idle_stream_bytes"] == sum(segment["total_size"] for segment in truth["segments"] if segment["stream"] in idle)


def test_new_streams(tmp_path):
    trace, truth = record(tmp_path, NEW)
    _, few = record(tmp_path, NEW, "few")
    device = frag(trace)
    assert device["streams"] == 21 and device["idle_streams"] == 20
    # reusing two of them saves the others
    assert device["idle_stream_bytes"] * 18 // 20 == truth["reserved"] - few["reserved"]
    text = " ".join(vramtrace("frag", "--at", "mark:here", trace).stdout.split())
    assert "is reserved for 20 of 21 streams, which hold no tensor" in text
    assert "Use a few streams again instead of 21" in text and "expandable_segments" not in text


@pytest.mark.parametrize("script,arguments", [(NEW, ["few"]), (TWO, [])])
def test_few_streams_are_no_finding(tmp_path, script, arguments):
    trace, _ = record(tmp_path, script, *arguments)
    assert "Use a few streams" not in vramtrace("frag", "--at", "mark:here", trace).stdout


def test_a_workspace_for_each_stream(tmp_path):
    """The figure is what PyTorch's counter shows with the setting; with it, it is not offered."""
    trace, truth = record(tmp_path, SERVED)
    small_trace, small = record(tmp_path, SERVED, CUBLAS_WORKSPACE_CONFIG=":16:8")
    advice = {a["kind"]: a for a in json.loads(vramtrace("report", "--json", trace).stdout)["devices"][0]["advice"]}
    saved = truth["peak"] - small["peak"]
    if saved < truth["peak"] / 20:
        pytest.skip("this PyTorch keeps no workspaces here")
    assert advice["workspaces"]["bytes"] == pytest.approx(saved, rel=0.05)
    assert "on 12 streams" in advice["workspaces"]["why"]
    assert "CUBLAS_WORKSPACE_CONFIG" not in vramtrace("report", small_trace).stdout


PIECES = MARK + """
if "program" in sys.argv:
    torch.cuda.memory._set_allocator_settings("garbage_collection_threshold:0.9,expandable_segments:True")
pairs = [[torch.empty(size << 20, dtype=torch.uint8, device="cuda") for size in (6, 2)] for _ in range(30)]
ends = [pair[1] for pair in pairs]
del pairs
here()
"""


@pytest.mark.parametrize("arguments,settings", [(["program"], {}), ([], {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                                                                        "PYTORCH_ALLOC_CONF": "expandable_segments:True"})])
def test_what_is_in_force_is_not_offered(tmp_path, arguments, settings):
    plain, _ = record(tmp_path, PIECES)
    trace, _ = record(tmp_path, PIECES, *arguments, **settings)
    assert "expandable_segments:True" in vramtrace("frag", "--at", "mark:here", plain).stdout
    assert "expandable_segments" not in vramtrace("frag", "--at", "mark:here", trace).stdout
    facts = json.loads(vramtrace("info", "--json", trace).stdout)
    assert any("expandable_segments:True" in setting["value"] for setting in facts["settings"])
    assert json.loads(vramtrace("info", "--json", plain).stdout)["settings"] == []
    assert "expandable_segments:True" in vramtrace("info", trace).stdout
