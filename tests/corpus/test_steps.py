"""Steps, forward passes and requests of programs that count their own (steps/counted.py)."""
import json
import math
import pathlib
import sys

import networkx
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from helpers import PYTHON, report, run, selected, table, vramtrace  # noqa: E402

# name: whether the report must tell requests. Where it need not, it says how many forward passes there were: one request with one
# pass cannot be told from one round of a loop, nor a single call without a beginning of its own from many.
NAMES = {
    "answered_by_hand": False, "generate_in_one_line": True, "generate_streams": True, "generate_once": False,
    "transformers_generate": True, "translated": True, "generate_in_threads": True, "http_endpoints": False, "two_endpoints": False,
    "endpoints_in_turn": False, "pool_of_endpoints": False, "workers_with_queue": False, "scheduled": False, "reloaded": False,
    "models_evaluated": False, "models_with_few_batches": False, "evaluated_with_gradients": False, "one_batch_again": False,
    "layers_by_hand": False, "slices_of_a_model": False, "halves_by_method": False, "trials_with_graphs": False,
    "marks_at_end": False, "marks_at_begin": False, "marks_at_end_plain": False, "marks_at_begin_plain": False,
    "marks_at_end_training": False, "marks_at_begin_training": False, "drawn": False,
    "threads_answer": True, "chats": False, "checkpoints_compared": False, "cells": False, "teacher_and_student": False,
    "tokenless_generate": False, "marks_after_setup": False,
}


@pytest.fixture(scope="module")
def counted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    run([PYTHON, HERE / "steps" / "run.py", folder, *selected(request, "name")], folder / "%p.vrt", VRAMTRACE_INSPECT="0")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_steps_and_requests(counted, name):
    truth, told = json.loads((counted / f"{name}.json").read_text()), report(counted / f"{name}.vrt")
    assert told["steps"] == truth["steps"]
    inference = told["devices"][0].get("inference")
    if inference is None or not truth["passes"]:
        return
    assert inference["forward_passes"] == truth["passes"]
    assert inference["requests"] == truth["requests"] if NAMES[name] else inference["requests"] in (None, truth["requests"])
    text = " ".join(vramtrace("report", counted / f"{name}.vrt").stdout.split())
    assert f" {truth['passes']:,} forward passes" in text and ("requests" in text) == (inference["requests"] is not None)


@pytest.mark.parametrize("name", [name for name, told in NAMES.items() if told and name != "transformers_generate"])
def test_when_requests_ran(counted, name):
    """From each request's first pass to its last, and into no other of its thread."""
    truth, trace = json.loads((counted / f"{name}.json").read_text()), counted / f"{name}.vrt"
    (marked,) = [int(row["t_ns"]) for row in table(trace, "marks") if row["name"] == "origin"]
    early, late = (origin - marked for origin in truth["origin"])  # the mark was set in between
    left = sorted(truth["spans"])
    limits = {}  # of each: when the one before it in its thread was at its last pass, and the next began
    for thread in {span[4] for span in left}:
        own = [span for span in left if span[4] == thread]
        for before, span, after in zip([None, *own], own, [*own[1:], None]):
            limits[tuple(span)] = before[2] if before else 0, after[0] if after else math.inf
    rows, fits = table(trace, "requests"), networkx.Graph()  # rows may fit requests of other threads: some choice has to fit all
    for number, row in enumerate(rows):
        first, last = int(row["t_ns"]), int(row["t_ns"]) + int(row["duration_ns"])
        fits.add_node(number)
        fits.add_edges_from((number, tuple(span)) for span in left if limits[tuple(span)][0] - late <= first <= span[1] - early
                            and span[2] - late <= last <= limits[tuple(span)][1] - early)
    chosen = networkx.bipartite.maximum_matching(fits, top_nodes=range(len(rows)))
    assert len(chosen) == 2 * len(rows) == 2 * len(left), (rows, left, fits.edges)
