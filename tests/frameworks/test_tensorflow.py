"""TensorFlow's BFC allocator, block by block, against its own counters."""

import pytest

from support import Framework
from helpers import info, report, vramtrace

tensorflow = Framework("venv-tensorflow", "tensorflow", 12)
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
