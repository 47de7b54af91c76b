"""Advice: for each kind a script whose report gives it, and the same script following it, whose peak really falls by about what
was said. The truth is torch.cuda.max_memory_allocated() of both runs, and for the cache torch.cuda.memory_reserved()."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import helpers  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE / "advice" / "scripts.py"
# kind of advice that each script calls for; what falls; how near the figure must be, of what fell
KINDS = {
    "checkpoints": ("checkpoint", "peak", 0.10),
    "attention": ("checkpoint", "peak", 0.05),
    "narrowing": ("checkpoint", "peak", 0.05),
    "zero_grad": ("zero_grad", "peak", 0.01),
    "zero_grad_autocast": ("zero_grad", "peak", 0.01),
    "zero_grad_late": ("zero_grad", "peak", 0.01),
    "no_grad": ("no_grad", "peak", 0.10),
    "optimizer": ("optimizer", "peak", 0.01),
    "wrapped_optimizer": ("optimizer", "peak", 0.01),
    "best_state": ("checkpoint_copy", "peak", 0.01),
    "leftover": ("checkpoint_copy", "peak", 0.01),
    "foreach": ("foreach", "peak", 0.01),
    "in_place": ("in_place", "peak", 0.01),
    "empty_cache": ("empty_cache", "reserved", 0.0),
    "history": ("leak", "peak", 0.02),
    "answers": ("leak", "peak", 0.02),
}


def run_scripts(folder, follow, looks):
    """{script: (report, what the script told, trace)}"""
    jobs = [f"{name}={SCRIPTS},{name},{follow}" for name in KINDS]
    result = helpers.run([helpers.PYTHON, HERE / "children.py", folder, *jobs], folder / "%p.vrt", VRAMTRACE_INSPECT=looks)
    found = {}
    for name, code in json.loads(result.stdout.splitlines()[-1]).items():
        text = (folder / f"{name}.log").read_text()
        assert code == 0, text
        told = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
        found[name] = (helpers.report(folder / f"{name}.vrt")["devices"][0], told, folder / f"{name}.vrt")
    return found


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    return run_scripts(tmp_path_factory.mktemp("followed"), 1, "1")


@pytest.fixture(scope="module", params=["1", "0"], ids=["inspections", "no inspections"])
def runs(request, tmp_path_factory, followed):
    """{script: (before, after)}"""
    before = run_scripts(tmp_path_factory.mktemp("advice"), 0, request.param)
    return {name: (before[name], followed[name]) for name in KINDS}


def advice(device, kind):
    return [item for item in device["advice"] if item["kind"] == kind]


@pytest.mark.parametrize("name", KINDS)
def test_the_peak_falls_by_what_is_said(runs, name):
    kind, what, near = KINDS[name]
    (before, told, _), (_, after, _) = runs[name]
    fell = told[what] - after[what]
    [item, *_] = advice(before, kind)
    assert abs(item["bytes"] - fell) <= near * fell, (item, fell)
    assert item["share"] == pytest.approx(item["bytes"] / told["peak"])


@pytest.mark.parametrize("name", KINDS)
def test_who_follows_is_not_told_again(followed, name):
    assert not advice(followed[name][0], KINDS[name][0])


@pytest.mark.parametrize("name", KINDS)
def test_order_and_threshold(runs, name):
    for device, told, _ in runs[name]:
        order = [(item["kind"] != "leak", -item["bytes"]) for item in device["advice"]]
        assert order == sorted(order)
        sizes = [item["bytes"] for item in device["advice"]]
        assert all(size * 100 >= told["peak"] for size in sizes)


def test_where(runs):
    lines = SCRIPTS.read_text().splitlines()

    def line(name, kind):
        where = advice(runs[name][0][0], kind)[0]["where"]
        return lines[int(where.split(":")[1].split()[0]) - 1]

    assert "optimizer.step()" in line("zero_grad", "zero_grad")
    assert "model(torch.randn" in line("no_grad", "no_grad")
    assert "relu(hidden" in line("in_place", "in_place")


def test_optimizer_by_its_arithmetic(runs):
    """AdamW: 8 bytes for each parameter of 4. Without looks its file tells, which may be that of the class that it derives from."""
    [item] = advice(runs["optimizer"][0][0], "optimizer")
    assert item["why"].split()[0] in ("AdamW", "adamw", "adam")
    assert "8.0 bytes per four bytes of parameters (8 by definition)" in item["why"]


def test_halves_of_weights_are_no_savings(runs):
    """What autocast keeps of the weights is not saved by a checkpoint, nor is its forward an evaluation."""
    assert {item["kind"] for item in runs["zero_grad_autocast"][0][0]["advice"]} == {"zero_grad"}


def test_gradients_are_those_of_one_step(runs):
    """Not the sum over all steps: eight layers, each with a weight and a bias."""
    for name in ("zero_grad", "zero_grad_late"):
        [item] = advice(runs[name][0][0], "zero_grad")
        assert item["why"].startswith("16 gradients of a step (128 MiB)"), item["why"]


def test_report_ends_with_it(runs):
    text = helpers.vramtrace("report", "--full", runs["in_place"][0][2]).stdout
    sections = text.split("\n\n")
    assert sections[-2].startswith("To lower the peak") and "−256 MiB" in sections[-2]
