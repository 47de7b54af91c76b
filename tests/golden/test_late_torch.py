"""PyTorch's profiler is told of every block also where its libraries are loaded after the first one, or have other
names; what we record of autograd begins with its library too."""
import json
import subprocess

import pytest

from harness import ANALYZER, LIBRARIES, PROGRAMS, run


def module(name):
    return PROGRAMS / f"fake_{name}.so"


def told(name, round_number):
    size = 512 * (round_number + 1)
    return [f"round {round_number}"] + [f"{name}: {what}" for what in (
        f"usage 0x10000 {size} {size} 4096 101", f"oom {size} {size} 4096 101", f"usage 0x10000 {-size} 0 4096 101")]


@pytest.mark.parametrize("name", ["c10", "renamed_c10"])
def test_loaded_late(tmp_path, name):
    done = run(tmp_path, ["late_torch", module("torch_cpu"), module(name), module("tool_c10")], "trace")
    assert done.returncode == 0, done.output + done.error
    assert done.output.splitlines() == ["round 0", "round 1", *told(name, 2), *told(name, 3)]
    assert [event.bytes for event in done.of("alloc")] == [512, 1024, 1536, 2048]


def test_another_tool_behind_us(tmp_path):
    """It stands where libc10's own would be called: without us it would be told too."""
    preload = f"{LIBRARIES['trace']} {module('tool_c10')}"
    done = run(tmp_path, ["late_torch", module("c10")], "trace", LD_PRELOAD=preload)
    plain = run(tmp_path, ["late_torch", module("c10")], None, LD_PRELOAD=module("tool_c10"))
    assert done.output == plain.output and done.output.splitlines() == told("tool_c10", 0) + told("tool_c10", 1)


def test_another_tool_before_us(tmp_path):
    preload = f"{module('tool_c10')} {LIBRARIES['trace']}"
    done = run(tmp_path, ["late_torch", module("c10")], "trace", LD_PRELOAD=preload)
    assert done.output.splitlines() == told("tool_c10", 0) + told("tool_c10", 1)


def test_autograd_loaded_late(tmp_path):
    done = run(tmp_path, ["late_torch", module("c10"), module("torch_cpu")], "trace")
    assert done.output.splitlines() == ["round 0", *told("c10", 1), *told("c10", 2)]
    lines = subprocess.check_output([ANALYZER, "info", "--events", "--json", tmp_path / "recorded"], text=True)
    events = [json.loads(line) for line in lines.splitlines()]
    # The fake's next node is number 8: the latest, 7, is written as twice that and two.
    assert [event["sequence"] for event in events if event["kind"] == "alloc"] == [0, 0, 16]
