"""PaddlePaddle's blocks, one by one, against its own counter and against where its tensors lie.

Its packages for GPUs have NVIDIA's runtime inside, which needs a GPU. So the package for processors trains here: its blocks pass
through the same class, and paddle_card.c tells them on as if they lay on a card."""
import re
import subprocess

import pytest

from support import HERE, Framework
from helpers import LIBRARY, info, report, vramtrace

paddle = Framework("venv-paddle", "paddle/base/libpaddle.so")
pytestmark = paddle.needed
CATEGORIES = ("parameter", "gradient", "optimizer_state")


def run_on_card(folder, script):
    card = folder / "paddle_card.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", card, HERE / "paddle_card.c", "-ldl"], check=True)
    trace = folder / "run.vrt"
    return trace, paddle.run(script, trace, LD_PRELOAD=f"{card}:{LIBRARY}", preload=False)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return run_on_card(tmp_path_factory.mktemp("paddle"), "paddle_script.py")


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


def test_texts_name_what_paddle_has(recorded):
    trace, _ = recorded
    text = "".join(vramtrace(command, trace).stdout for command in ("report", "oom", "leaks", "frag"))
    for word in ("torch", "zero_grad", "no_grad"):
        assert word not in text, word
    assert "optimizer.clear_grad(set_to_zero=False)" in text or "gradients (" not in text


def test_the_call_that_empties_its_cache_is_there():
    """The one that texts name (tests/golden/test_remedies.py)."""
    assert re.search(r"^def empty_cache\(\)", (paddle.packages / "paddle/device/cuda/__init__.py").read_text(), re.MULTILINE)


def test_initializers_are_no_modules(recorded):
    """They have a forward method, too, and are gone when a layer is made where they were."""
    names = [row["name"] for row in at(recorded[0], "backward2", "--by", "module")["modules"]]
    assert names and not [name for name in names if "Initializer" in name], names


def test_nothing_of_ordinary_memory_is_recorded(tmp_path):
    paddle.run("paddle_script.py", tmp_path / "none.vrt")
    assert not (tmp_path / "none.vrt").exists()


# ---- names ----

@pytest.fixture(scope="module")
def named(tmp_path_factory):
    return run_on_card(tmp_path_factory.mktemp("names"), "paddle_names_script.py")


def test_tensors_have_their_paths(named):
    """Each parameter, gradient, buffer, state and kept tensor has the path that Paddle or the program gives it, and no other."""
    trace, truth = named[0], named[1]["taken"]
    assert len(truth) == 5
    for mark, told in truth.items():
        blocks = {block["address"]: block for block in at(trace, mark, "--by", "block", "--top", "100000")["blocks"]}
        seen = {}
        for path, role, address, size in told["tensors"]:
            seen.setdefault(address, (path, role, size))
        assert len(seen) >= 26 or mark == "made"
        for address, (path, role, size) in seen.items():
            block = blocks[address]
            assert (block["owner"], block["bytes"]) == (path, size), (mark, path, block)
            if role:
                assert (block["category"], block["evidence"]) == (role, "exact"), (mark, path, block)
        paths = {path for path, _, _ in seen.values()} - {None}
        assert not [block for address, block in blocks.items() if address not in seen and block["owner"] in paths], mark
    vramtrace("info", "--verify", trace)


def test_what_holds_others_is_told_too(named):
    trace, truth = named[0], named[1]["taken"]
    blocks = {block["address"]: block for block in at(trace, "kept", "--by", "block", "--top", "100000")["blocks"]}
    (hidden,) = [address for path, _, address, _ in truth["kept"]["tensors"] if path is None]
    assert "hidden" in blocks[hidden]["held_by"]


def test_a_program_that_looks_at_all_its_objects_sees_the_same(named, tmp_path):
    """Inspections make no object that stays, and leave the collector as it was."""
    alone = paddle.run("paddle_names_script.py", tmp_path / "none.vrt", preload=False)

    def shape(taken):
        return {mark: (told["changed"], [[path, role, size] for path, role, _, size in told["tensors"]]) for mark, told in taken.items()}
    assert shape(alone["taken"]) == shape(named[1]["taken"])
