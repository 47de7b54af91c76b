"""Advice: for each kind scripts whose report gives it, and the same scripts following it, whose peak really falls by what was said,
within 5 %. The truth is torch.cuda.max_memory_allocated() of both runs, and for the cache torch.cuda.memory_reserved()."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import helpers  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
NEAR = 0.05  # of what fell
# by file: the kind of advice that each script calls for
FILES = {
    "scripts": {
        "checkpoints": "checkpoint", "attention": "checkpoint", "narrowing": "checkpoint",
        "zero_grad": "zero_grad", "zero_grad_autocast": "zero_grad", "zero_grad_late": "zero_grad",
        "no_grad": "no_grad", "optimizer": "optimizer", "wrapped_optimizer": "optimizer",
        "best_state": "checkpoint_copy", "leftover": "checkpoint_copy", "foreach": "foreach", "in_place": "in_place",
        "history": "leak", "answers": "leak",
    },
    "losses": {
        "weights": "need_weights", "weights_crossed": "need_weights", "weights_evaluated": "need_weights",
        "micro_batches": "backward_each", "list_of_losses": "backward_each", "tasks": "backward_each",
        "vocabulary": "chunked_loss", "vocabulary_shifted": "chunked_loss", "vocabulary_tied": "chunked_loss",
        "kept_logits": "kept_through_backward", "kept_output": "kept_through_backward",
        "saved_clones": "checkpoint_copy", "saved_deepcopy": "checkpoint_copy", "saved_whole": "checkpoint_copy",
    },
    "unlike": {"critic": "backward_each", "mixed_precision": "backward_each", "weights_collected": "kept_through_backward"},
}
# what must not be said of these
NOT_SAID = {
    "losses": {"carried_state": "backward_each", "compared": "backward_each"},
    "unlike": {"weights_in_loss": "need_weights", "weights_collected": "need_weights", "recurrent": "backward_each",
               "square_state": "backward_each", "triplet": "backward_each", "few_classes": "chunked_loss",
               "kept_and_needed": "kept_through_backward"},
}
# what would help and is not said, or not with the right bytes: another operator may read what a variable keeps
KNOWN_WRONG = {"losses": {"kept_images": "kept_through_backward"}, "unlike": {"kept_hidden": "kept_through_backward"}}
KINDS = {name: kind for kinds in FILES.values() for name, kind in kinds.items()}
COLUMNS = 60


def file_of(script):
    return HERE / "advice" / f"{script}.py"


def run_scripts(folder, follow, looks):
    """{script: (report, what the script told, trace)}"""
    wanted = {script: {**kinds, **KNOWN_WRONG.get(script, {}), **({} if follow else NOT_SAID.get(script, {}))}
              for script, kinds in FILES.items()}
    wanted["scripts"]["empty_cache"] = None
    jobs = [f"{name}={file_of(script)},{name},{follow}" for script, names in wanted.items() for name in names]
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
    return {name: (found, followed.get(name)) for name, found in before.items()}


def advice(device, kind):
    return [item for item in device["advice"] if item["kind"] == kind]


@pytest.mark.parametrize("name", KINDS)
def test_the_peak_falls_by_what_is_said(runs, name):
    (before, told, _), (_, after, _) = runs[name]
    fell = told["peak"] - after["peak"]
    [item, *_] = advice(before, KINDS[name])
    assert abs(item["bytes"] - fell) <= NEAR * fell, (item, fell)
    assert item["share"] == pytest.approx(item["bytes"] / told["peak"])


@pytest.mark.parametrize("name, kind", [item for names in NOT_SAID.values() for item in names.items()])
def test_what_would_not_help_is_not_said(runs, name, kind):
    assert not advice(runs[name][0][0], kind)


def test_in_one_line(runs):
    for (device, _, _), _ in runs.values():
        for item in device["advice"]:
            assert len(item["what"]) <= COLUMNS and item["what"].isprintable(), item["what"]


def test_reserved_but_unused(runs):
    """A fact of its own, of the reserved bytes at the peak; nobody who follows it is told again."""
    (before, told, trace), (after, less, _) = runs["empty_cache"]
    fell = told["reserved"] - less["reserved"]
    assert before["reserved_unused"] == {"bytes": fell, "share": pytest.approx(fell / told["reserved"]),
                                         "remedy": "torch.cuda.empty_cache()"}
    assert "reserved_unused" not in after
    assert "empty_cache" not in {item["kind"] for item in before["advice"]}


def test_never_more_than_it_saves(runs):
    for names in KNOWN_WRONG.values():
        for name, kind in names.items():
            (before, told, _), (_, after, _) = runs[name]
            assert all(item["bytes"] <= told["peak"] - after["peak"] for item in advice(before, kind)), name


@pytest.mark.parametrize("name", KINDS)
def test_who_follows_is_not_told_again(followed, name):
    assert not advice(followed[name][0], KINDS[name])


@pytest.mark.parametrize("name", KINDS)
def test_order_and_threshold(runs, name):
    for device, told, _ in filter(None, runs[name]):
        order = [(item["kind"] != "leak", -item["bytes"]) for item in device["advice"]]
        assert order == sorted(order)
        sizes = [item["bytes"] for item in device["advice"]]
        assert all(size * 100 >= told["peak"] for size in sizes)


def test_where(runs):
    lines = file_of("scripts").read_text().splitlines()

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
    assert "8.0 bytes for each 4 bytes of parameters (8 expected)" in item["why"]


def test_halves_of_weights_are_no_savings(runs):
    """What autocast keeps of the weights is not saved by a checkpoint, nor is its forward an evaluation. Backward needs all but the
    first layer's, whose input has no gradient; the biases go with the autocast block."""
    device = runs["zero_grad_autocast"][0][0]
    assert {item["kind"] for item in device["advice"]} == {"zero_grad"}
    assert device["peak"]["half_copy_bytes"] == 11 * 512 * 2048 * 2
    assert runs["optimizer"][0][0]["peak"]["half_copy_bytes"] == 0


def test_gradients_are_those_of_one_step(runs):
    """Not the sum over all steps: eight layers, each with a weight and a bias."""
    for name in ("zero_grad", "zero_grad_late"):
        [item] = advice(runs[name][0][0], "zero_grad")
        assert item["why"].startswith("16 gradients of a step (128 MiB)"), item["why"]


def test_report_ends_with_it(runs):
    text = helpers.vramtrace("report", "--full", runs["in_place"][0][2]).stdout
    assert "−256 MiB" in text.split("\nTo lower the peak")[1].split("\n\n")[0]
