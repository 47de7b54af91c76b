"""Leaks, and growth that is none: the scripts of leaks/, each with the truth that it records itself, and those of
leaks_unseen/, which nobody looked at while mending: these say themselves what the holder's text must name.

As a program, prints docs/results/leaks.md; with --unseen, a table of leaks_unseen/ (with
--unseen=fresh, of leaks_fresh/, and so on) and a summary.
"""
import argparse
import json
import pathlib
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from helpers import PYTHON, made_here, run, short, versions, vramtrace  # noqa: E402

SCRIPTS = HERE / "leaks"


def names_in(folder):
    return sorted(path.stem for kind in ("leak", "clean") for path in folder.glob(f"{kind}_*.py")
                  if path.stem not in ("leak_tools", "leak_runner"))


NAMES = names_in(SCRIPTS)
UNSEEN = {folder: names_in(HERE / f"leaks_{folder}") for folder in ("unseen", "fresh", "third")}
TOLERANCE, UNSEEN_TOLERANCE = 0.01, 0.05
HOST = "host pinned growth"
# The holder of each leak, as a reader of the script would name it. Those without an entry have no Python holder (driver
# memory, a list that C is building, pinned memory), or none that can be named.
HOLDERS = {
    "leak_async_server": "list Service.audit",
    "leak_auxiliary_head": "list 'scores' of main()",
    "leak_begins_late": "list 'hard' of main()",
    "leak_bound_methods": "reference cycle Request",
    "leak_callback_losses": "list Consistency.history",
    "leak_class_attribute": "list Batch.known",
    "leak_concatenated": "local 'predictions' of main()",
    "leak_context_variable": "context variable 'request', list",
    "leak_cycle_collected": "reference cycle No",
    "leak_cycle_never_collected": "reference cycle State -> function -> State",
    "leak_dataset_cache": "dict Crops.cache",
    "leak_default_argument": "default 'seen' of note(), list",
    "leak_deferred_calls": "default 'table' of main.<locals>.<lambda>()",
    "leak_evaluate_each_step": "attribute Run.best",
    "leak_exception": "traceback of ValueError, local 'outputs' of risky()",
    "leak_failures_report": "traceback of FloatingPointError",
    "leak_feature_dict": "dict Model.seen",
    "leak_forward_hook": "list 'seen' of main()",
    "leak_full_queue": "deque Queue.queue",
    "leak_function_context": "reference cycle ClampBackward",
    "leak_gradient_hook": "list Watcher.signs",
    "leak_gradient_log": "dict 'seen' of main()",
    "leak_gradient_norms": "list 'norms' of main()",
    "leak_held_async_tasks": "local 'request' of Service.handle()",
    "leak_held_cached_method": "cache of Encoder.encode()",
    "leak_held_closure_counter": "closure cell 'calls' of evaluate, list",
    "leak_held_exception_chain": "traceback of JobFailed, local 'predictions' of Queue.score()",
    "leak_held_generator_local": "list 'shown' of remember()",
    "leak_held_history_dict": "list 'history['outputs']' of main()",
    "leak_held_linked_slots": "attribute Log.newest",
    "leak_held_new_layers": "parameters adapters.*",
    "leak_held_numbered_attributes": "attributes feature_* of Net",
    "leak_held_old_teachers": "list Distiller.rounds['teachers']",
    "leak_held_registry": "set Run.registry",
    "leak_held_replay_deques": "deque Replay.buffers['easy']",
    "leak_held_result_queue": "deque Queue.queue",
    "leak_held_thread_local": "list 'pending' of write_metrics()",
    "leak_held_trainer_cycle": "reference cycle ",
    "leak_hessian_products": "local 'curvature' of main()",
    "leak_hidden_state": "local 'state' of main()",
    "leak_hook_keeps_output": "list 'seen' of main()",
    "leak_hooks_pile_up": "closure cell 'reference'",
    "leak_last_epoch_losses": "list 'predictions'",
    "leak_log_records": "list MemoryHandler.buffer",
    "leak_loss_parts": "list 'history' of main()",
    "leak_lru_cache": "cache of normalized()",
    "leak_metrics_by_name": "list 'history['regularised']' of main()",
    "leak_model_copies": "list 'averages' of main()",
    "leak_object_array": "local 'table' of main()",
    "leak_open_generators": "list Gateway.streams",
    "leak_outputs_list": "list 'outputs' of main()",
    "leak_pool_server": "dict Handler.answered",
    "leak_samples_now_and_then": "list 'samples' of main()",
    "leak_schedulers": "list 'schedulers' of main()",
    "leak_served_requests": "dict Server.answers",
    "leak_small_view": "list 'examples' of main()",
    "leak_state_dicts": "dict 'checkpoints' of main()",
    "leak_streams_overlap": "list Worker.results",
    "leak_thread_per_request": "dict 'SESSIONS'",
    "leak_total_loss": "local 'total' of main()",
    "leak_total_loss_in_place": "local 'penalty_sum' of main()",
    "leak_trainer_cycle": "reference cycle Sequential -> Trainer -> Sequential",
    "leak_two_at_once": "local 'total' of main()",
    "leak_validation": "list 'losses' of main()",
    "leak_weight_snapshots": "list 'snapshots' of main()",
    "leak_worker_thread": "list Loader.seen",
}
# What is not found without inspections, and why.
UNSEEN_WITHOUT_INSPECTIONS = {
    "leak_bound_methods": "each request begins with the objects that make the collector run: it frees three requests at one "
                          "line, as a script does that clears a list there. Only marked frees tell the two apart",
}


def run_scripts(names, folder, **settings):
    """name -> (truth, answer of `leaks --json`)."""
    run([PYTHON, SCRIPTS / "leak_runner.py", folder, *names], folder / "%p.vrt", check=False, **settings)
    answers = {}
    for name in names:
        trace, told = folder / f"{name}.vrt", folder / f"{name}.json"
        assert trace.exists() and told.exists(), (folder / f"{name}.log").read_text()
        truth = json.loads(told.read_text())
        answers[name] = truth, json.loads(vramtrace("leaks", "--json", trace).stdout)
    return answers


def judge(name, truth, answer, tolerance=TOLERANCE):
    """The errors as text; "" = none."""
    device, = answer["devices"]
    if not device["leaks_judged"]:
        return "not judged"
    leaks = [leak for leak in device["leaks"] if leak["leak"]]
    if truth["verdicts"] and HOST not in truth["verdicts"]:  # the counter sees the device alone
        leaks = [leak for leak in leaks if leak["verdict"] != HOST]
    growth = [leak["verdict"] for leak in device["leaks"] if not leak["leak"]]
    if not truth["verdicts"]:
        if leaks:
            return f"false alarm: {leaks[0]['verdict']}, {leaks[0]['bytes_per_step']} bytes per step"
        return "" if truth["growth"] in (None, *growth) else f"growth: {growth}, expected {truth['growth']}"
    if not leaks:
        return "not found"
    wrong = []
    if truth["entries"] not in (None, len(leaks)):
        wrong.append(f"{len(leaks)} leaks: {[(leak['verdict'], leak['bytes_per_step']) for leak in leaks]}")
    leak = leaks[0]
    if leak["verdict"] not in truth["verdicts"]:
        wrong.append(f"{leak['verdict']}, expected {truth['verdicts'][0]}")
    reported = sum(leak["bytes_per_step"] for leak in leaks)
    if abs(reported - truth["bytes_per_step"]) > max(tolerance, truth["tolerance"]) * truth["bytes_per_step"]:
        wrong.append(f"{reported} bytes per step, expected {truth['bytes_per_step']}")
    shown = [line["line"] for line in leak["lines"] if line["file"].endswith(f"/{name}.py")]
    if not set(shown) & set(truth["lines"]):
        wrong.append(f"lines {shown}, expected {truth['lines']}")
    return "; ".join(wrong)


def holder_is_right(name, truth, holder):
    """In HOLDERS: how the text begins; in the script: words of which it has one, with | between."""
    if truth["holder"] is not None:
        return any(word in (holder or "") for word in truth["holder"].split("|"))
    return (holder or "").startswith(HOLDERS[name]) if name in HOLDERS else not holder


@pytest.fixture(scope="module")
def answers(request, tmp_path_factory):
    asked = [item.callspec.params["name"] for item in request.session.items if item.originalname == "test_script"]
    return run_scripts(asked, tmp_path_factory.mktemp("leaks"))


@pytest.mark.parametrize("name", NAMES)
def test_script(answers, name):
    truth, answer = answers[name]
    assert not judge(name, truth, answer)
    leaks = [leak for leak in answers[name][1]["devices"][0]["leaks"] if leak["leak"]]
    holder = leaks[0]["holder"] if leaks else None
    assert holder_is_right(name, truth, holder), holder


def test_without_inspections(tmp_path):
    """Verdicts, bytes and lines are right without names, too."""
    names = short(NAMES)
    answers = run_scripts(names, tmp_path, VRAMTRACE_INSPECT="0")
    wrong = {name: told for name in names if (told := judge(name, *answers[name]))}
    assert all(wrong.pop(name, "not found") == "not found" for name in UNSEEN_WITHOUT_INSPECTIONS)
    assert not wrong


def test_view(tmp_path):
    """A small view is reported as one, with the storage it keeps: a row of 256 of a batch of 512 rows."""
    run_scripts(["leak_small_view"], tmp_path)
    page, report = (" ".join(vramtrace(command, tmp_path / "leak_small_view.vrt").stdout.split())
                    for command in ("leaks", "report"))
    assert "(float32 256, a view of 1.00 KiB that keeps all 512.00 KiB of its storage: clone() it)" in page
    assert "16 items (small views of it)" in report


def test_names_of_parameters(tmp_path):
    """Copies of a model have names that modules give them; who keeps the copies is told, with the step in which that was seen."""
    answer = run_scripts(["leak_model_copies"], tmp_path)["leak_model_copies"][1]
    leak = answer["devices"][0]["leaks"][0]
    assert leak["holder"].startswith("list 'averages' of main()") and leak["holder_step"] > leak["since_step"]
    for command in ("leaks", "report"):
        assert "list 'averages' of main()" in " ".join(vramtrace(command, tmp_path / "leak_model_copies.vrt").stdout.split())


def test_report(tmp_path):
    """The report has a sentence for a leak, and one for no leak."""
    run_scripts(["leak_total_loss", "clean_plain"], tmp_path)
    leak, clean = (vramtrace("report", tmp_path / f"{name}.vrt").stdout
                   for name in ("leak_total_loss", "clean_plain"))
    sentence = " ".join(leak.split())
    assert "since step 2, retained graph, made at" in sentence and "Out of memory at about step" in sentence
    assert "No leak in 18 steps." in clean


def test_a_bounded_leak_is_told_as_one(tmp_path):
    truth, answer = run_scripts(["leak_cycle_collected"], tmp_path)["leak_cycle_collected"]
    leak = answer["devices"][0]["leaks"][0]  # how many steps wait is the collector's choice
    text = " ".join(vramtrace("report", tmp_path / "leak_cycle_collected.vrt").stdout.split())
    assert leak["bytes"] == leak["blocks"] * truth["bytes_per_step"] and leak["blocks"] > 1
    assert f"{leak['bytes'] / 1024:.2f} KiB at most, until the collector ran." in text


def unseen(names):
    """The table of these scripts, and how many were right in each respect."""
    with tempfile.TemporaryDirectory() as folder:
        found = run_scripts(names, pathlib.Path(folder))
    counts = dict.fromkeys(("found", "verdict", "line", "bytes", "holder"), 0)
    leaking = [name for name in names if found[name][0]["verdicts"]]
    print("| script | reported | held by | wrong |\n|---|---|---|---|")
    for name in names:
        truth, answer = found[name]
        device = answer["devices"][0]
        leaks = [leak for leak in device["leaks"] if leak["leak"]]
        wrong = judge(name, truth, answer, UNSEEN_TOLERANCE)
        holder = leaks[0]["holder"] if leaks else None
        if name in leaking:
            for what, right in (("found", bool(leaks)), ("verdict", leaks and "expected" not in wrong.split("; ")[0]),
                                ("line", leaks and "lines" not in wrong), ("bytes", leaks and "bytes per step" not in wrong),
                                ("holder", holder_is_right(name, truth, holder))):
                counts[what] += bool(right)
            if not holder_is_right(name, truth, holder):
                wrong = "; ".join(filter(None, (wrong, f"expected holder {truth['holder']}")))
        verdicts = " · ".join(leak["verdict"] for leak in device["leaks"]) or "no leak"
        print(f"| {name} | {verdicts} | {holder or '–'} | {wrong or 'right'} |")
    clean = [name for name in names if name not in leaking]
    alarms = sum(any(leak["leak"] for leak in found[name][1]["devices"][0]["leaks"]) for name in clean)
    print(f"\nOf {len(leaking)} leaks: " + ", ".join(f"{what} {count}" for what, count in counts.items()) +
          f". False alarms: {alarms} of {len(clean)}.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unseen", nargs="?", const="unseen", choices=UNSEEN, metavar="FOLDER")
    folder = parser.parse_args().unseen
    return unseen(UNSEEN[folder]) if folder else page()


def page():
    with tempfile.TemporaryDirectory() as folder:
        found = run_scripts(NAMES, pathlib.Path(folder))
        print(made_here("Leaks: reported and true", "tests/standin/run.sh python tests/torch/test_leaks.py > docs/results/leaks.md",
                        versions(pathlib.Path(folder) / f"{NAMES[0]}.vrt")))
    print("The scripts of `tests/torch/leaks/`. The truth is `torch.cuda.memory_allocated()` at the same place of every step. A line is right\n"
          "if it is among the first three shown, bytes per step if they are within 1 %. *held by*: the Python name, found by an inspection\n"
          "that the script requests near its end.\n")
    print("| script | verdict | bytes per step | true | line | held by | |")
    print("|---|---|--:|--:|---|---|---|")
    wrong = 0
    for name in NAMES:
        truth, answer = found[name]
        leaks = [leak for leak in answer["devices"][0]["leaks"] if leak["leak"]]
        leak = leaks[0] if leaks else None
        place = "–"
        if leak:
            shown = [line["line"] for line in leak["lines"] if line["file"].endswith(f"/{name}.py")]
            hit = [number for number, line in enumerate(shown, 1) if line in truth["lines"]]
            place = f"{'first second third'.split()[hit[0] - 1]} of {len(shown)}" if hit else "not shown"
        trouble = judge(name, truth, answer)
        wrong += bool(trouble)
        reported = sum(leak["bytes_per_step"] for leak in leaks)
        true = round(truth["bytes_per_step"]) if truth["verdicts"] else 0
        verdict = " · ".join(other["verdict"] for other in answer["devices"][0]["leaks"]) or "no leak"
        holder = leak["holder"] if leak and leak["holder"] else "–"
        if not holder.startswith(HOLDERS.get(name, "–")):
            trouble = trouble or f"expected {HOLDERS[name]}"
        print(f"| {name} | {verdict} | {reported:,} | {true:,} | {place} | {holder} | {trouble or 'right'} |")
    print(f"\n{len(NAMES) - wrong} of {len(NAMES)} right.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
