"""Backward's bytes carry the forward line: join_script.py, against PyTorch's own tracebacks of where nodes were made."""
import concurrent.futures
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, list_blocks, run, selected  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "join_script.py"
GRAPHS = ("transformer_amp", "resnet50", "gpt", "gpt_checkpoint", "in_place", "reentrant", "own_function",
          "double_backward", "same_thread", "threads")


def run_graph(name, folder):
    trace, truth = folder / "run.vrt", folder / "truth.json"
    run([PYTHON, SCRIPT, name, "--truth", truth], trace)
    return list_blocks(trace), json.loads(truth.read_text())


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """One run of each graph asked for, two at a time: most of a run is torch being imported."""
    asked = selected(request, "graph")
    pool = concurrent.futures.ThreadPoolExecutor(2)
    yield {graph: pool.submit(run_graph, graph, tmp_path_factory.mktemp(graph)) for graph in asked}
    pool.shutdown(cancel_futures=True)


def plain(frames):
    """Qualified names are ours only."""
    return [(file, line, function.split(".")[-1]) for file, line, function in frames]


def python_only(frames):
    return [frame for frame in plain(frames) if frame[0].endswith(".py") or frame[0].startswith("<")]


def is_recomputed(frames):
    """What PyTorch's history shows under an allocation: a checkpoint's second forward."""
    return any(file.endswith("torch/utils/checkpoint.py") for file, _, _ in frames)


def is_call_of_backward(frame):
    return frame[0].endswith("torch/_tensor.py") and frame[2] == "backward"


@pytest.mark.parametrize("graph", GRAPHS)
def test_backward_carries_where_its_node_was_made(runs, graph):
    blocks, truth = runs[graph].result()
    all_bytes, told_bytes, wrong = 0, 0, []
    in_modules, with_module = 0, 0  # of what belongs to a forward operator that some module's call ran
    for block, (address, _, frames) in zip(blocks, truth["history"]):
        assert block["address"] == address
        if not block["mark"].startswith("node "):
            continue
        node = truth["nodes"][int(block["mark"].split()[1])]
        history, forward = python_only(frames), plain(block["forward"])
        if not forward and is_recomputed(history):
            told, true = plain(block["own"]), history
        else:
            told, true = forward, plain(node["frames"])
        all_bytes += block["bytes"]
        told_bytes += block["bytes"] if told else 0
        if any(function == "_call_impl" for _, _, function in true):
            in_modules += block["bytes"]
            with_module += block["bytes"] if block["module"] else 0
        if node["name"].endswith("AccumulateGrad") and forward:  # no operator made it: the script's call of backward shows
            assert any(is_call_of_backward(frame) for frame in forward) and forward[-1][0].endswith(SCRIPT.name), forward
        elif told and told != true:
            wrong.append((node["name"], block["op"], block["bytes"], told[:2], true[:2]))
    assert not wrong, f"{len(wrong)} wrong: {wrong[:5]}"
    assert told_bytes >= 0.95 * all_bytes > 0, (told_bytes, all_bytes)
    assert with_module >= 0.95 * in_modules, (with_module, in_modules)


LET_GO = """
import gc, weakref
import torch

class Held:
    pass

held = []

class Own(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        context.held = Held()
        held.append(weakref.ref(context.held))
        return values * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2 + 1

layer = torch.nn.Linear(64, 64).cuda()
for _ in range(5):
    Own.apply(layer(torch.randn(8, 64, device="cuda"))).sum().backward()
gc.collect()
print(sum(reference() is not None for reference in held), "of", len(held))
"""


def test_nodes_are_let_go(tmp_path):
    """The running node is asked for at every allocation in backward: each time it is counted, and that taken back."""
    (tmp_path / "let_go.py").write_text(LET_GO)
    assert run([PYTHON, tmp_path / "let_go.py"], tmp_path / "run.vrt").stdout == "0 of 5\n"
