"""The operator of every block, against PyTorch's profiler in the same run (ops_script.py)."""
import concurrent.futures
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, list_blocks, run, selected  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "ops_script.py"
STEPS = ("mlp_sgd", "mlp_adam", "transformer_amp", "resnet50", "gpt", "gpt_checkpoint", "reentrant", "fused", "one_by_one",
         "own_function", "own_optimizer", "recurrent", "detection", "shared_gradients", "ways_to_make")
# Frames end where Python begins, and the profiler's operators go on round it; torchvision's have no names in frames.
PARTLY_HIDDEN = ("gpt_checkpoint", "reentrant", "own_function", "detection")


def run_step(name, folder):
    trace, truth = folder / "run.vrt", folder / "truth.json"
    run([PYTHON, SCRIPT, name, "--truth", truth], trace)
    return list_blocks(trace), json.loads(truth.read_text())


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """One run of each step asked for, two at a time: most of a run is torch being imported."""
    asked = selected(request, "step")
    pool = concurrent.futures.ThreadPoolExecutor(2)
    yield {step: pool.submit(run_step, step, tmp_path_factory.mktemp(step)) for step in asked}
    pool.shutdown(cancel_futures=True)


def shown(operator):
    """How we name what the profiler names `torch::autograd::AccumulateGrad` or `…CppNode<a::b::Function>`."""
    return operator.rstrip(">").split("::")[-1] if operator.startswith("torch::autograd::") else operator


@pytest.mark.parametrize("step", STEPS)
def test_every_block_has_its_operator(runs, step):
    blocks, truth = runs[step].result()
    blocks = [block for block in blocks if block["mark"] == "profiled"]
    assert len(blocks) == len(truth["made"]) > 3
    wrong = []
    for block, (address, operators) in zip(blocks, truth["made"]):
        assert block["address"] == address
        operators = [shown(operator) for operator in operators if not operator.startswith("autograd::engine::")]
        told = block["op"]
        if told.startswith("aten::"):
            told = "aten::" + truth["schemas"][told[6:]]
        if told not in (operators if step in PARTLY_HIDDEN else operators[:1]):
            wrong.append((block["op"], operators))
    assert not wrong, f"{len(wrong)} of {len(blocks)} wrong: {wrong[:5]}"
