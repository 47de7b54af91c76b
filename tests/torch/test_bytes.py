"""Every byte against PyTorch's own counters, PyTorch's own history and the stand-in driver's books."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, info, library_bytes, report, run, vramtrace  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "train_script.py"
MODELS = ("mlp_adam", "mlp_sgd", "transformer_amp", "resnet50", "gpt", "gpt_checkpoint")
STEPS = 5


def train(folder, model, **settings):
    """(trace, truth) of one training."""
    run([PYTHON, SCRIPT, model, "--steps", STEPS, "--truth", folder / "truth.json"], folder / "run.vrt", **settings)
    return folder / "run.vrt", json.loads((folder / "truth.json").read_text())


@pytest.fixture(scope="module", params=MODELS)
def trained(request, tmp_path_factory):
    return train(tmp_path_factory.mktemp(request.param), request.param)


def at_marks(trace, truth):
    """Pairs of (what was true at a mark, our view at it)."""
    count = {}
    for mark in truth["marks"]:
        count[mark["name"]] = count.get(mark["name"], 0) + 1
        device = report(trace, "--at", f"mark:{mark['name']}#{count[mark['name']]}")["devices"][0]
        yield mark, device


def test_bytes_at_every_mark(trained):
    trace, truth = trained
    assert len(truth["marks"]) == 3 * STEPS
    for mark, device in at_marks(trace, truth):
        view = device["at"]
        assert view["block_bytes"] == mark["allocated"], mark
        assert view["segment_bytes"] == mark["reserved"], mark
        if mark["driver_bytes"] is not None:
            assert view["driver_bytes"] == mark["driver_bytes"], mark
        assert sum(view["categories"].values()) == view["driver_bytes"]
        assert view["step"] == mark["step"] + 1, (mark["name"], mark["step"], view["step"])


def test_expandable_segments(tmp_path):
    """Virtual memory management: physical handles mapped one behind the other, blocks across their borders."""
    trace, truth = train(tmp_path, "transformer_amp", PYTORCH_ALLOC_CONF="expandable_segments:True")
    test_bytes_at_every_mark((trace, truth))
    vramtrace("info", "--verify", trace)
    assert info(trace)["counts"]["kinds"]["map"]["driver"] > 0


def test_stream_ordered_allocator(tmp_path):
    """cudaMallocAsync: the driver's pool in place of PyTorch's allocator."""
    trace, truth = train(tmp_path, "mlp_adam", PYTORCH_ALLOC_CONF="backend:cudaMallocAsync")
    for mark, device in at_marks(trace, truth):
        view = device["at"]
        told = mark["driver_bytes"] or (  # a GPU's driver has no such books
            view["context_bytes"] + mark["reserved"] + library_bytes(trace, view["event"]))
        assert device["at"]["driver_bytes"] == told, mark
        assert sum(device["at"]["categories"].values()) == device["at"]["driver_bytes"]
    vramtrace("info", "--verify", trace)


def test_peak(trained):
    trace, truth = trained
    device = report(trace)["devices"][0]
    assert device["peak"]["block_bytes"] == truth["marks"][-1]["max_allocated"]


def test_categories_sum_to_driver_bytes_at_every_event(trained):
    trace, _ = trained
    vramtrace("info", "--verify", trace)
    seen = info(trace)
    assert seen["trace"]["dropped"] == 0
    assert seen["trace"]["complete"] is True


def test_categories_within_one_percent(trained):
    trace, truth = trained
    for mark, device in at_marks(trace, truth):
        ours = device["at"]["categories"]
        for names in (("parameter", "buffer"), ("gradient",), ("optimizer_state",)):
            told = sum(ours[name] for name in names)
            true = sum(mark["categories"][name] for name in names)
            assert abs(told - true) <= 0.01 * true, (mark["name"], mark["step"], names, told, true)
        assert ours["input"] == mark["categories"]["input"], (mark["name"], mark["step"])
        # Activations are the rest of forward, less inputs and workspaces. Autograd's thread has a workspace of its own from the first
        # backward pass on; on a GPU cuBLAS has memory of its own, too.
        if mark["name"] == "fwd":
            workspaces = truth["workspace_bytes" if mark["step"] else "first_workspace_bytes"]
            assert ours["workspace"] - library_bytes(trace, device["at"]["event"]) == workspaces
            true = mark["allocated"] - sum(mark["categories"].values()) - workspaces
            told = ours["activation"] + ours["temporary"]
            assert abs(told - true) <= 0.01 * true, (mark, told, true)


def test_timeline_keeps_the_peak(trained):
    trace, truth = trained
    timeline = report(trace)["devices"][0]["timeline"]
    in_use = [sum(values) for values in zip(*(bytes_of for name, bytes_of in timeline["categories"].items()
                                              if name not in ("cached", "context", "host_pinned")))]
    assert len(timeline["t_ns"]) == len(in_use) > 10
    assert timeline["t_ns"] == sorted(timeline["t_ns"])
    beside = library_bytes(trace, report(trace)["devices"][0]["peak"]["event"])
    assert max(in_use) == truth["marks"][-1]["max_allocated"] + beside
