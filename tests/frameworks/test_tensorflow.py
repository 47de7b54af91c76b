"""TensorFlow's BFC allocator, block by block, against its own counters."""

import json

import pytest

from support import Framework
from helpers import RUN, events, info, report, vramtrace

tensorflow = Framework("venv-tensorflow", "tensorflow")
pytestmark = tensorflow.needed


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    trace = tmp_path_factory.mktemp("tensorflow") / "run.vrt"
    return trace, tensorflow.run("tensorflow_script.py", trace)


def test_bytes_at_every_mark(recorded):
    trace, truth = recorded
    assert len(truth) == 11
    for mark, counter in truth.items():
        device = report(trace, "--at", f"mark:{mark}")["devices"][0]
        assert device["at"]["block_bytes"] == counter["current"] > 0, mark
        assert sum(device["at"]["categories"].values()) == device["at"]["driver_bytes"]
    assert report(trace)["devices"][0]["peak"]["block_bytes"] == truth["dropped"]["peak"]
    vramtrace("info", "--verify", trace)
    seen = info(trace)
    assert seen["trace"]["dropped"] == 0 and seen["counts"]["kinds"]["free"]["framework"] > 10


def test_blocks_have_the_lines_that_made_them(recorded):
    trace, truth = recorded
    lines = report(trace, "--by", "line", "--at", "mark:made")["devices"][0]["at"]["lines"]
    ours = [line for line in lines if line["file"].endswith("tensorflow_script.py") and line["function"] == "make_weights"]
    assert sum(line["bytes"] for line in ours) >= 4 * (300 * 200 + 200 * 10), lines


def test_results_are_the_same_without_us(recorded, tmp_path):
    _, truth = recorded
    assert tensorflow.run("tensorflow_script.py", tmp_path / "none.vrt", preload=False) == truth


def test_memory_that_is_taken_at_once(recorded, tmp_path):
    """With memory growth, most of the card is not reserved; without, the setting for it is named."""
    setting = "TF_FORCE_GPU_ALLOW_GROWTH=true takes memory as it is needed"
    tensorflow.run("tensorflow_memory_script.py", tmp_path / "run.vrt", "at-once")
    reserved = [json.loads(vramtrace("frag", "--json", trace).stdout)["devices"][0]["reserved_bytes"]
                for trace in (tmp_path / "run.vrt", recorded[0])]
    assert reserved[0] > 4 << 30 > 10 * reserved[1]
    told = [" ".join(vramtrace("frag", trace).stdout.split()) for trace in (tmp_path / "run.vrt", recorded[0])]
    assert setting in told[0] and setting not in told[1]


@pytest.mark.skipif(not RUN, reason="fills the card: only over the stand-in, whose size can be set")
def test_running_out_of_memory(tmp_path):
    """TensorFlow refuses without asking the driver, when it has had what it may take of the card."""
    trace = tmp_path / "run.vrt"
    truth = tensorflow.run("tensorflow_memory_script.py", trace, VRAMTRACE_STANDIN_MEMORY="2GiB")
    found = json.loads(vramtrace("oom", "--json", trace).stdout)
    (refusal,) = found["out_of_memory"]
    assert refusal["layer"] == "framework" and refusal["requested_bytes"] == 4 * 4096 * 8192 and truth["message"]
    at = report(trace, "--at", "oom")["devices"][0]["at"]
    assert abs(at["block_bytes"] - truth["in_use"]) <= refusal["requested_bytes"] and truth["kept"] > 6
    assert found["last"]["causes"][0]["kind"] == "leak"
    text = "".join(vramtrace(command, trace).stdout for command in ("report", "oom", "leaks", "frag"))
    assert "memory_limit" in text
    for word in ("torch", "PYTORCH", "PyTorch", "graph", "in init (", "large pool"):
        assert word not in text, word


@pytest.mark.skipif(not RUN, reason="fills the card: only over the stand-in, whose size can be set")
def test_running_out_of_memory_without_segments(tmp_path):
    """The allocator that this setting chooses asks the driver twice before TensorFlow raises its one exception."""
    setting, _, value = "TF_GPU_ALLOCATOR=cuda_malloc_async".partition("=")
    trace = tmp_path / "run.vrt"
    truth = tensorflow.run("tensorflow_memory_script.py", trace, VRAMTRACE_STANDIN_MEMORY="2GiB", **{setting: value})
    assert truth["message"] and truth["kept"] > 6
    failed = [event for event in events(trace) if event["kind"] == "alloc_failed"]
    assert len(failed) == 2 and {event["function"] for event in failed} == {"cuMemAllocFromPoolAsync"}
    found = json.loads(vramtrace("oom", "--json", trace).stdout)
    (refusal,) = found["out_of_memory"]
    assert (refusal["requested_bytes"], refusal["driver_tries"]) == (4 * 4096 * 8192, 2)
    assert found["last"]["causes"] and "failed_try" not in {cause["kind"] for cause in found["last"]["causes"]}
