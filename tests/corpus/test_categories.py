"""The category of every block, over many ways to train and to run models, compared with the truth that the programs record
(category_truth.py), with inspections of live objects and without."""
import concurrent.futures
import pathlib
import sys

import pytest

sys.path[:0] = map(str, (pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[1]))
import catalogue  # noqa: E402
import table  # noqa: E402
from helpers import LONG, selected, short  # noqa: E402

# Shares of bytes that must be right.
REQUIRED = {
    "parameters and buffers": 0.9999,
    "gradients": 1,
    "optimizer state": 1,
    "communication": 1,
    "workspaces": 0.9999,
    "KV caches": 0.99,
    "activations": 0.99,
    "inputs": 0.99,
    "temporaries": 0.99,
    "checkpoint copies": 0.9999,
}
REQUIRED_OF_ALL, UNKNOWN_LIMIT = 0.999, 0.001
NAMES = catalogue.names(*catalogue.CATEGORIES)
# In the short form each once: a third with inspections, whose names tests/torch/test_names.py compares too, the others by rules.
CHOSEN = {"inspections": set(short(NAMES)), "rules": set(NAMES) if LONG else set(NAMES) - set(short(NAMES))}


@pytest.fixture(scope="module", params=table.MODES)
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def examined(mode, request, tmp_path_factory):
    """All requested trainings in one run, which imports PyTorch once. Two reports run at a time."""
    asked = [name for name in selected(request, "name") if name in CHOSEN[mode]]
    folder, inspect = tmp_path_factory.mktemp(mode), table.MODES[mode]
    table.train(folder, inspect, asked)
    pool = concurrent.futures.ThreadPoolExecutor(2)
    yield {name: pool.submit(table.examine, folder, name, inspect) for name in asked}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", NAMES)
def test_training(examined, mode, name):
    if name not in CHOSEN[mode]:
        pytest.skip("only in the long form: VRAMTRACE_LONG=1")
    result, program, wrong = examined[name].result(), catalogue.read()[name], []
    known = program.known_shares(mode)
    for group, required in [(None, REQUIRED_OF_ALL), *REQUIRED.items()]:
        share = result.share(group)
        if share < known.get(group or "all", required):
            wrong.append(f"{group or 'all'}: {share:.6f}")
    if result.unknown() >= UNKNOWN_LIMIT:
        wrong.append(f"unknown: {result.unknown():.6f}")
    steps = int(program.expected.get("steps", result.true_steps))
    if result.step_count != steps:
        wrong.append(f"{result.step_count} steps, expected {steps}")
    blocks = {block.number: (moment.name, block) for moment in reversed(result.moments) for block in moment.wrong()}
    assert not wrong, "\n".join(wrong + [f"{moment}: {block}" for moment, block in list(blocks.values())[:40]])
