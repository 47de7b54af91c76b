"""RMM's buffers, one by one, against where its own objects say that they lie, and the driver memory of the pools that they come from."""
import json

import pytest

from support import HERE, Framework
from helpers import PROGRAM, PYTHON, RUN, info, report, run, vramtrace

rmm = Framework("venv-frameworks", "librmm")
pytestmark = rmm.needed
MARKS = ["bottom", "pool", "fixed", "binning", "statistics", "managed", "limit", "threads", "host", "cleared"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    trace = tmp_path_factory.mktemp("rmm") / "run.vrt"
    return trace, rmm.run("rmm_script.py", trace)


def test_buffers_at_every_mark(recorded):
    trace, truth = recorded
    assert list(truth["told"]) == MARKS and truth["refused"] == 2
    for mark, told in truth["told"].items():
        at = report(trace, "--by", "block", "--top", "100000", "--at", f"mark:{mark}")["devices"][0]["at"]
        # What no buffer lies in is shown as the driver's allocation that it is.
        blocks = {(block["address"], block["bytes"]) for block in at["blocks"] if block["kind"] == "block"}
        assert blocks == set(map(tuple, told["buffers"])), mark
        assert at["block_bytes"] == sum(size for _, size in told["buffers"])
        assert at["driver_bytes"] == told["taken"] + at["context_bytes"], mark
    assert len(truth["told"]["threads"]["buffers"]) > 280 and not truth["told"]["cleared"]["buffers"]
    vramtrace("info", "--verify", trace)
    seen = info(trace)
    assert seen["trace"]["dropped"] == 0 and seen["counts"]["kinds"]["free"]["framework"] > 400


def test_lines_that_made_them(recorded):
    trace, truth = recorded
    at = report(trace, "--by", "line", "--at", "mark:threads")["devices"][0]["at"]
    ours = sum(line["bytes"] for line in at["lines"] if line["function"] == "make")
    assert ours == sum(size for _, size in truth["told"]["threads"]["buffers"])


def test_no_advice_for_another_framework(recorded):
    """Nothing that PyTorch alone has is told to a program without it."""
    text = "".join(vramtrace(command, "--at", "mark:threads", recorded[0]).stdout for command in ("report", "frag"))
    assert "torch" not in text and "PYTORCH" not in text and "Free the blocks that pin segments" in text


def test_what_stays_is_not_temporary(recorded):
    """No frame tells what a buffer is for; those of this moment stay until all are dropped."""
    at = report(recorded[0], "--at", "mark:threads")["devices"][0]["at"]
    assert at["categories"]["temporary"] == 0 and at["block_bytes"] > 0


def test_no_advice_for_another_framework_without_native_stacks(tmp_path):
    trace = tmp_path / "run.vrt"
    rmm.run("rmm_script.py", trace, VRAMTRACE_NATIVE_STACKS="0")
    text = "".join(vramtrace(command, "--at", "mark:threads", trace).stdout for command in ("report", "frag"))
    assert "torch" not in text and "PYTORCH" not in text and "pool" not in text.replace("PoolMemory", "")


def test_the_same_without_us(recorded, tmp_path):
    """Offsets in the pools, sizes and refusals are those of a run without the recorder."""
    alone = rmm.run("rmm_script.py", tmp_path / "none.vrt", preload=False)

    def shape(truth):
        return {mark: (told["taken"], sorted(size for _, size in told["buffers"])) for mark, told in truth["told"].items()}
    assert shape(alone) == shape(recorded[1]) and alone["refused"] == recorded[1]["refused"]


# ---- beside PyTorch in one process ----

BESIDE = """
import ctypes, json, subprocess, sys, torch
sys.path.insert(0, {here!r})
import rmm_script as rmm
linear, seen = torch.nn.Linear(500, 700).cuda(), {{}}
optimizer = torch.optim.AdamW(linear.parameters())
for step in range(3):
    rmm.make(step, 3_000_001, rmm.kept["pool"])
    linear(torch.randn(2000, 500, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 1:
        del rmm.alive[0]
    ctypes.CDLL(None).vramtrace_mark(b"step%d" % step)
    seen["step%d" % step] = [torch.cuda.memory_allocated(), sum(buffer.capacity() for buffer in rmm.alive.values())]
top = subprocess.run([{program!r}, "top", "--once", "--json", {folder!r}], capture_output=True, text=True, check=True)
print(json.dumps({{"seen": seen, "top": json.loads(top.stdout)}}))
rmm.alive.clear()
rmm.kept.clear()  # resources that call Python crash if they outlive it, with us or without
del rmm.bottom
"""


@pytest.mark.skipif(not RUN, reason="the script's memory is the stand-in's")
def test_beside_pytorch(tmp_path):
    """The blocks of both are summed, and each one's own counter agrees with its part."""
    trace = tmp_path / "run.vrt"
    settings = rmm.with_packages("venv-frameworks", "librmm")
    script = BESIDE.format(here=str(HERE), program=str(PROGRAM), folder=str(tmp_path))
    truth = json.loads(run([PYTHON, "-c", script], trace, **settings).stdout.splitlines()[-1])
    for mark, (counted, uncounted) in truth["seen"].items():
        at = report(trace, "--at", f"mark:{mark}")["devices"][0]["at"]
        assert at["block_bytes"] == counted + uncounted and counted > 2 ** 20 and uncounted > 2 ** 20, mark
    live = truth["top"]["processes"][0]["devices"][0]
    assert live["block_bytes"] == sum(truth["seen"]["step2"])
    seen = info(trace)
    assert (seen["disagreements"]["total_mismatches"], seen["trace"]["dropped"]) == (0, 0)
    vramtrace("info", "--verify", trace)


OVER = """
import ctypes, json, torch, rmm, rmm.mr
bottom = rmm.mr.CallbackMemoryResource(lambda size, stream: torch.cuda.caching_allocator_alloc(size),
                                       lambda address, size, stream: torch.cuda.caching_allocator_delete(address))
pool = rmm.mr.PoolMemoryResource(bottom, initial_pool_size=4 << 20, maximum_pool_size=64 << 20)
seen, alive = {}, []


def mark(name):
    ctypes.CDLL(None).vramtrace_mark(name.encode())
    seen[name] = torch.cuda.memory_allocated()


for size in (100, 5000, 3_000_001):
    alive += [rmm.DeviceBuffer(size=size, mr=bottom), rmm.DeviceBuffer(size=size, mr=pool), torch.randn(size // 10, device="cuda")]
mark("made")
del alive[:5]
mark("fewer")
alive.append(torch.randn(100_000, device="cuda"))
mark("more")
alive.clear()
mark("none")
print(json.dumps(seen))
del pool, bottom  # resources that call Python crash if they outlive it, with us or without
"""


@pytest.mark.skipif(not RUN, reason="PyTorch and RMM come from two environments")
def test_over_pytorch(tmp_path):
    """Memory that RMM takes from PyTorch's allocator is PyTorch's block, and counts once."""
    trace = tmp_path / "run.vrt"
    seen = json.loads(run([PYTHON, "-c", OVER], trace, **rmm.with_packages("venv-frameworks", "librmm")).stdout.splitlines()[-1])
    for mark, allocated in seen.items():
        assert report(trace, "--at", f"mark:{mark}")["devices"][0]["at"]["block_bytes"] == allocated, mark
    assert set(info(trace)["disagreements"].values()) == {0}
    vramtrace("info", "--verify", trace)
