"""PaddlePaddle's blocks, one by one, against its own counter and against where its tensors lie.

Its packages for GPUs have NVIDIA's runtime inside, which needs a GPU. So the package for processors trains here: its blocks pass
through the same class, and paddle_card.c tells them on as if they lay on a card."""
import subprocess

import pytest

from support import HERE, Framework
from helpers import LIBRARY, info, report, vramtrace

paddle = Framework("venv-paddle", "paddle/base/libpaddle.so", 13)
pytestmark = paddle.needed
CATEGORIES = ("parameter", "gradient", "optimizer_state")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paddle")
    card = folder / "paddle_card.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", card, HERE / "paddle_card.c", "-ldl"], check=True)
    trace = folder / "run.vrt"
    return trace, paddle.run("paddle_script.py", trace, LD_PRELOAD=f"{card}:{LIBRARY}", preload=False)


def at(trace, mark, *options):
    return report(trace, *options, "--at", f"mark:{mark}")["devices"][0]["at"]


def test_bytes_at_every_mark(recorded):
    trace, truth = recorded
    assert len(truth) == 14
    for mark, told in truth.items():
        assert at(trace, mark)["block_bytes"] == told["in_use"] > 0, mark
    vramtrace("info", "--verify", trace)
    seen = info(trace)
    assert seen["trace"]["dropped"] == 0 and seen["counts"]["kinds"]["free"]["framework"] > 50


def test_blocks_are_the_tensors_by_what_they_are_for(recorded):
    trace, truth = recorded
    for mark, told in truth.items():
        blocks = {block["address"]: block for block in at(trace, mark, "--by", "block")["blocks"]}
        for category in CATEGORIES:
            for address, size in told[category]:
                assert (blocks[address]["bytes"], blocks[address]["category"]) == (size, category), mark
            assert sum(block["bytes"] for block in blocks.values() if block["category"] == category) == \
                sum(size for _, size in told[category]), mark


def test_blocks_have_the_lines_that_made_them(recorded):
    trace, truth = recorded
    lines = at(trace, "forward0", "--by", "line")["lines"]
    ours = [line for line in lines if line["file"].endswith("paddle_script.py") and line["function"] == "make_model"]
    assert sum(line["bytes"] for line in ours) == sum(size for _, size in truth["forward0"]["parameter"])


def test_nothing_of_ordinary_memory_is_recorded(tmp_path):
    paddle.run("paddle_script.py", tmp_path / "none.vrt")
    assert not (tmp_path / "none.vrt").exists()
