"""Segments, blocks and holes at a moment, against PyTorch's own snapshot of its allocator."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, run, vramtrace  # noqa: E402

# Blocks of both pools with every third one freed, larger ones on top, and one segment that is given back.
SCRIPT = """
import ctypes, json, sys, torch
sizes = [300, 70_000, 900_000, 1_500_000, 3_000_000, 12_000_000, 25_000_000] * 6
tensors = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
del tensors[::3]
tensors += [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (5_000_000, 40_000_000)]
del tensors[5]
torch.cuda.empty_cache()
del tensors[7:9]
ctypes.CDLL(None).vramtrace_mark(b"here")
json.dump(torch.cuda.memory_snapshot(), sys.stdout)
"""


@pytest.mark.parametrize("settings", ["", "expandable_segments:True", "max_split_size_mb:24", "roundup_power2_divisions:4"])
def test_as_pytorch_says(tmp_path, settings):
    trace = tmp_path / "x.vrt"
    segments = json.loads(run([PYTHON, "-c", SCRIPT], trace, PYTORCH_ALLOC_CONF=settings).stdout)
    device, = json.loads(vramtrace("frag", "--json", "--at", "mark:here", trace).stdout)["devices"]
    blocks = sorted((block["address"], block["size"]) for segment in segments for block in segment["blocks"]
                    if block["state"].startswith("active"))
    holes = [block["size"] for segment in segments for block in segment["blocks"] if block["state"] == "inactive"]
    assert len(blocks) > 20 and len(holes) > 5
    assert sorted((block["address"], block["bytes"]) for segment in device["segments"] for block in segment["blocks"]) == blocks
    assert sorted((segment["address"], segment["bytes"]) for segment in device["segments"]) == sorted(
        (segment["address"], segment["total_size"]) for segment in segments)
    assert device["reserved_bytes"] == sum(segment["total_size"] for segment in segments)
    assert device["hole_bytes"] == sum(holes) and device["largest_hole_bytes"] == max(holes)
    assert device["empty_bytes"] == sum(segment["total_size"] for segment in segments if segment["active_size"] == 0)
    assert device["returnable_bytes"] == device["empty_bytes"] and device.get("release",
                                                                              "torch.cuda.empty_cache()") == "torch.cuda.empty_cache()"
