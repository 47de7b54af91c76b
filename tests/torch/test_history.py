"""Event by event against torch.cuda.memory._record_memory_history in the same process."""
import pathlib
import pickle
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, events, run  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "train_script.py"
STEPS = 5
BLOCK_ROUNDING = 512
UNSPLIT_REST = 1 << 20  # a remainder up to this stays with the block


@pytest.fixture(scope="module", params=("mlp_adam", "transformer_amp", "resnet50"))
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    run([PYTHON, SCRIPT, request.param, "--steps", STEPS, "--history", folder / "history.pickle", "--stacks", "python"],
        folder / "run.vrt")
    with open(folder / "history.pickle", "rb") as file:
        history = pickle.load(file)
    theirs = [event for event in history[0] if event["action"] in ("alloc", "free_completed")]
    ours = [event for event in events(folder / "run.vrt")
            if event["layer"] == "framework" and event["kind"] in ("alloc", "free")]
    return ours, theirs


def test_same_order_addresses_and_sizes(both):
    ours, theirs = both
    assert len(theirs) > 300
    assert len(ours) >= len(theirs)  # ours goes on to the end of the process, theirs to the dump
    live = {}
    for mine, its in zip(ours, theirs):
        assert mine["kind"] == {"alloc": "alloc", "free_completed": "free"}[its["action"]]
        assert int(mine["address"], 16) == its["addr"]
        # theirs is what was asked; the block is that rounded up, and may keep an unsplit rest
        asked = max(its["size"], 1)
        rounded = (asked + BLOCK_ROUNDING - 1) // BLOCK_ROUNDING * BLOCK_ROUNDING
        assert rounded <= mine["bytes"] <= rounded + UNSPLIT_REST, (mine, its)
        if mine["kind"] == "alloc":
            live[mine["address"]] = mine["bytes"]
        elif mine["address"] in live:
            assert live.pop(mine["address"]) == mine["bytes"]


def test_same_python_frames(both):
    ours, theirs = both
    compared = 0
    for mine, its in zip(ours, theirs):
        if its["action"] != "alloc":
            continue
        expected = [(frame["filename"], frame["line"], frame["name"]) for frame in its["frames"]
                    if frame["filename"].endswith(".py") or frame["filename"].startswith("<")]
        if not expected:
            continue
        seen = [(frame["file"], frame["line"], frame["function"].split(".")[-1]) for frame in mine["stack"]
                if frame["kind"] == "python"]
        assert seen == expected, (mine["index"], seen[:3], expected[:3])
        compared += 1
    assert compared > 100
