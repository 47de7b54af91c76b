"""The real PyTorch over the stand-in: what the driver says and what PyTorch says are the same bytes.

No recorder here: this is the ground that the other tests stand on.
"""
import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from helpers import PYTHON, RUN, run  # noqa: E402

pytestmark = pytest.mark.skipif(not RUN, reason="a real driver does not tell these books")
MODELS = ["mlp_sgd", "mlp_adam", "transformer_amp", "resnet50", "gpt", "gpt_checkpoint"]


def train(name, tmp_path, **environment):
    truth = tmp_path / "truth.json"
    run([PYTHON, HERE / "train_script.py", name, "--steps", "5", "--truth", truth], preload=False, **environment)
    return json.loads(truth.read_text())


def marks_agree(truth):
    assert [mark["name"] for mark in truth["marks"]] == ["fwd", "bwd", "step"] * 5
    for mark in truth["marks"]:
        assert mark["driver_bytes"] == truth["context_bytes"] + mark["reserved"]
        assert mark["allocation_bytes"] == mark["reserved"]
        assert sum(mark["categories"].values()) <= mark["allocated"] <= mark["reserved"]


@pytest.mark.parametrize("name", MODELS)
def test_driver_bytes_are_context_and_reserved(name, tmp_path):
    truth = train(name, tmp_path)
    marks_agree(truth)
    forward, backward, step = (mark["categories"] for mark in truth["marks"][-3:])
    assert forward["gradient"] == 0 < backward["gradient"] == step["gradient"]
    assert forward["parameter"] == step["parameter"] > 0
    assert forward["optimizer_state"] == step["optimizer_state"] >= step["parameter"]
    assert truth["marks"][0]["categories"]["optimizer_state"] == 0


def test_expandable_segments(tmp_path):
    marks_agree(train("transformer_amp", tmp_path, PYTORCH_ALLOC_CONF="expandable_segments:True"))


def test_stream_ordered_allocator(tmp_path):
    truth = train("transformer_amp", tmp_path, PYTORCH_ALLOC_CONF="backend:cudaMallocAsync")
    for mark in truth["marks"]:
        assert mark["driver_bytes"] == truth["context_bytes"] + mark["allocation_bytes"]
        assert mark["reserved"] == mark["allocation_bytes"]


def test_modules_cost_memory(tmp_path):
    truth = train("mlp_sgd", tmp_path, VRAMTRACE_STANDIN_MODULE="1MiB")
    last = truth["marks"][-1]
    modules = last["driver_bytes"] - truth["context_bytes"] - last["reserved"]
    assert modules > 0 and modules % (1 << 20) == 0


def test_out_of_memory(tmp_path):
    code = "import torch\ntry: torch.empty(2 << 30, device='cuda')\nexcept torch.OutOfMemoryError: print('full')"
    result = run([PYTHON, "-c", code], preload=False, VRAMTRACE_STANDIN_MEMORY="1GiB")
    assert result.stdout == "full\n", result.stderr
