"""Categories to the byte, over many ways to train: variants.py, against the truth it takes at its marks."""
import ast
import concurrent.futures
import json
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, report, run  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "variants.py"
COMPARED = {
    "parameter": ("parameter", "buffer"),
    "gradient": ("gradient",),
    "optimizer_state": ("optimizer_state",),
}
# Where the truth and we differ by right: (variant, mark) -> group: bytes that we tell of and the truth does not count.
NOT_COUNTED = {
    # The truth counts gradients of parameters only; here inputs have them: one from autograd.grad, one in .grad.
    ("gradient_penalty", "fwd"): {"gradient": 32 * 256 * 4},
    ("gradient_penalty", "bwd"): {"gradient": 2 * 32 * 256 * 4},
    ("gradient_penalty", "step"): {"gradient": 2 * 32 * 256 * 4},
    ("checkpoint_reentrant", "bwd"): {"gradient": 64 * 256 * 4},
    ("checkpoint_reentrant", "step"): {"gradient": 64 * 256 * 4},
    # The truth reads .grad; here the batch norm's two gradients are computed, and not yet put there.
    ("killed_in_backward", "within_bwd"): {"gradient": 2 * 512 * 4},
    ("killed_in_first_backward", "within_bwd"): {"gradient": 2 * 512 * 4},
}
# Where we are wrong and know it: (variant, mark, count) -> group: bytes too many. Whoever mends it takes it out.
KNOWN_WRONG = {
    # Inputs that get a gradient and were allocated before the first forward look like a parameter.
    ("gradient_penalty", mark, 1): {"parameter": 32 * 256 * 4}
    for mark in ("fwd", "bwd", "step")
}


def names():
    """The variants, read from the script's text: this Python need not have torch."""
    for node in ast.parse(SCRIPT.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "VARIANTS":
            return [name.id for name in node.value.generators[0].iter.elts]
    raise AssertionError(f"no VARIANTS in {SCRIPT}")


def extra(variant, mark, count, group):
    """Bytes that we tell of beyond the truth."""
    return sum(table.get(key, {}).get(group, 0) for table, key in
               ((NOT_COUNTED, (variant, mark)), (KNOWN_WRONG, (variant, mark, count))))


def run_variant(variant, folder):
    """(trace, marks of the truth) of one run."""
    trace, truth = folder / "run.vrt", folder / "truth.json"
    result = run([PYTHON, SCRIPT, variant, "--truth", truth], trace, check=False)
    expected = (-signal.SIGKILL, 128 + signal.SIGKILL) if variant.startswith("killed") else (0,)
    assert result.returncode in expected, result.stderr
    return trace, json.loads(truth.read_text())["marks"]


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """One run of each variant asked for, two at a time: most of a run is torch being imported."""
    asked = [item.callspec.params["variant"] for item in request.session.items if item.originalname == "test_variant"]
    pool = concurrent.futures.ThreadPoolExecutor(2)
    yield {variant: pool.submit(run_variant, variant, tmp_path_factory.mktemp(variant)) for variant in asked}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("variant", names())
def test_variant(runs, variant):
    trace, marks = runs[variant].result()
    assert marks
    count, wrong = {}, []
    for mark in marks:
        name = mark["name"]
        count[name] = count.get(name, 0) + 1
        view = report(trace, "--at", f"mark:{name}#{count[name]}")["devices"][0]["at"]
        pairs = {"block_bytes": (view["block_bytes"], mark["allocated"]), "unknown": (view["categories"]["unknown"], 0)}
        if mark["driver_bytes"] is not None:
            pairs["driver_bytes"] = (view["driver_bytes"], mark["driver_bytes"])
        for group, categories in COMPARED.items():
            told, true = (sum(side["categories"][category] for category in categories) for side in (view, mark))
            pairs[group] = told, true + extra(variant, name, count[name], group)
        wrong += [f"{name}#{count[name]}: {what} {told}, truly {true}"
                  for what, (told, true) in pairs.items() if told != true]
    assert not wrong, "\n".join(wrong)
