"""PyTorch's other allocators: one of the program's own (CUDAPluggableAllocator), pools that use one (MemPool), and the driver's
pool (cudaMallocAsync). PyTorch's history refuses the first and the last; here each block is compared with the books of
the allocator itself."""
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, events, info, list_blocks, report, run, vramtrace  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("pluggable") / "pluggable.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", path, HERE / "pluggable.c", "-ldl"], check=True)
    return path


@pytest.fixture(scope="module", params=["direct", "pooled", "mempool", "mempool-own"])
def recorded(request, library, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    run([PYTHON, HERE / "pluggable_script.py", library, request.param, folder / "truth.json"], folder / "run.vrt")
    return request.param, folder / "run.vrt", json.loads((folder / "truth.json").read_text())


def marks(truth):
    return [name for name in truth if name != "parameters"]


def test_blocks_and_bytes_are_those_of_the_allocator(recorded):
    kind, trace, truth = recorded
    for mark in marks(truth):
        device = report(trace, "--by", "block", "--at", f"mark:{mark}")["devices"][0]
        view = device["at"]
        assert view["block_bytes"] == truth[mark]["block_bytes"], mark
        assert sorted([b["address"], b["bytes"]] for b in view["blocks"] if b["kind"] == "block") == truth[mark]["blocks"]
        if kind != "direct":
            assert view["segment_bytes"] == truth[mark]["chunk_bytes"]
        assert sum(view["categories"].values()) == view["driver_bytes"]
    assert report(trace)["devices"][0]["peak"]["block_bytes"] == truth[marks(truth)[-1]]["peak_bytes"]
    vramtrace("info", "--verify", trace)
    seen = info(trace)
    assert seen["trace"]["dropped"] == 0
    if "made" in truth["left"]:
        assert seen["counts"]["kinds"]["alloc"]["framework"] == truth["left"]["made"]


def test_categories_and_forward_lines(recorded):
    kind, trace, truth = recorded
    at = report(trace, "--at", "mark:step2")["devices"][0]["at"]["categories"]
    slack = 0 if kind in ("direct", "pooled") else 4 * 512  # PyTorch's own allocator rounds up
    assert truth["parameters"] <= at["parameter"] <= truth["parameters"] + slack
    assert truth["parameters"] <= at["gradient"] <= truth["parameters"] + slack
    assert at["optimizer_state"] >= 2 * truth["parameters"]
    backward = [block for block in list_blocks(trace) if block["in_backward"] and block["category"] == "temporary"]
    assert backward and all(any("pluggable_script" in frame[0] for frame in block["forward"]) for block in backward)


def test_stream_ordered_allocations_have_their_nodes(tmp_path):
    """cudaMallocAsync: each allocation carries the same autograd node as PyTorch's own allocator would give it, so that what
    backward makes has its forward line."""
    nodes = {}
    for backend in ("native", "cudaMallocAsync"):
        trace = tmp_path / f"{backend}.vrt"
        run([PYTHON, HERE / "train_script.py", "mlp_adam", "--steps", "4"], trace, PYTORCH_ALLOC_CONF=f"backend:{backend}")
        layer = "framework" if backend == "native" else "driver"
        nodes[backend] = [event["sequence"] for event in events(trace) if (event["kind"], event["layer"]) == ("alloc", layer)]
    assert nodes["native"] == nodes["cudaMallocAsync"]
    assert sum(sequence % 2 for sequence in nodes["native"]) > 10
