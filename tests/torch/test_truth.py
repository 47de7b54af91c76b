"""The real PyTorch over the stand-in: what the driver says and what PyTorch says are the same bytes.

Run by pytest under tests/standin/run.sh, or `tests/standin/run.sh python -m pytest tests/torch`.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MODELS = ["mlp_sgd", "mlp_adam", "transformer_amp", "resnet50", "gpt", "gpt_checkpoint"]


def train(name, tmp_path, **environment):
    truth = tmp_path / "truth.json"
    command = [sys.executable, HERE / "train_script.py", name, "--steps", "5", "--truth", truth]
    subprocess.run(command, check=True, env={**os.environ, **environment})
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
    environment = {**os.environ, "VRAMTRACE_STANDIN_MEMORY": "1GiB"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stdout == "full\n", result.stderr
