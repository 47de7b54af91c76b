"""The page's data of a real training against PyTorch's own counters, and against every event of the trace."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("", "golden")]
import page_data  # noqa: E402
import test_page_data as golden  # noqa: E402
from helpers import PYTHON, run, vramtrace  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "train_script.py"
STEPS = 5


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(trace file, truth, decoded page)"""
    folder = tmp_path_factory.mktemp("page")
    run([PYTHON, SCRIPT, "transformer_amp", "--steps", STEPS, "--truth", folder / "truth.json"], folder / "run.vrt")
    vramtrace("html", "-o", folder / "page.html", folder / "run.vrt")
    _, (trace,) = page_data.read(folder / "page.html")
    return folder / "run.vrt", json.loads((folder / "truth.json").read_text()), trace


def block_bytes(trace):
    """Of device 0 after each change."""
    steps = [0] * (trace.head["changes"] + 1)
    for allocation in trace.allocations:
        if trace.class_of(allocation)["kind"] == "block":
            steps[allocation["begin"]] += allocation["bytes"]
            steps[trace.head["changes"] if allocation["end"] is None else allocation["end"]] -= allocation["bytes"]
    held, sums = 0, []
    for step in steps[:-1]:
        held += step
        sums.append(held)
    return sums


def test_counters_at_every_mark(trained):
    _, truth, trace = trained
    marks, sums = trace.head["marks"], block_bytes(trace)
    assert [mark["name"] for mark in marks] == [mark["name"] for mark in truth["marks"]] and len(marks) == 3 * STEPS
    for mark, true in zip(marks, truth["marks"]):
        change = trace.change_at(mark["event"])
        assert sums[change] == true["allocated"]
        assert page_data.kind_bytes(trace, change, 0, "segment") == true["reserved"]
        categories, driver = page_data.sums_at(trace, change, 0)
        assert driver == true["driver_bytes"] == sum(categories.values()) - categories["host_pinned"]
    assert max(sums) == truth["marks"][-1]["max_allocated"]
    assert sums.index(max(sums)) == trace.head["devices"][0]["peak_change"]
    assert trace.head["devices"][0]["has_blocks"] and trace.head["steps"] == STEPS


def test_every_event(trained):
    path, _, trace = trained
    events = golden.events_of(path)
    golden.check_changes(trace, events)
    golden.check_allocations(trace, events)
    golden.check_names(trace)
    golden.check_export(path, trace)
    golden.check_instants(path, trace)


@pytest.mark.skipif(not shutil.which("node"), reason="node was not found")
def test_the_page_reads_the_same(trained):
    path, _, trace = trained
    reader = pathlib.Path(__file__).resolve().parents[1] / "page" / "columns.mjs"
    read = subprocess.run(["node", reader, path.with_name("page.html")], capture_output=True, text=True, check=True, timeout=120)
    never = 0xFFFFFFFF
    assert [tuple(map(int, line.split())) for line in read.stdout.splitlines()] == [
        (a["begin"], never if a["end"] is None else a["end"], a["klass"], a["bytes"], a["address"]) for a in trace.allocations]


def drawn_height(trace, *options):
    """Bytes to which the terminal's chart reaches in colour, and those of an eighth of a row."""
    shown = vramtrace("timeline", "--color", "always", *options, trace).stdout
    text = re.sub(r"\033\[[\d;]*m", "", re.sub(r"\033\[48;5;\d+m.", "█", shown))  # with a background the cell is full
    lines = text.split("peak", 1)[1].splitlines()[1:]
    rows = lines[:next(i for i, line in enumerate(lines) if "┼" in line)][::-1]
    ticks = [(number + 1, float(row.split("┤")[0])) for number, row in enumerate(rows) if "┤" in row]
    unit = 1 << {"KiB": 10, "MiB": 20, "GiB": 30}[re.search(r"^ *([KMG]iB) ", text, re.M)[1]]
    row_bytes = ticks[-1][1] * unit / ticks[-1][0]
    high, top = max((number, row[9:]) for number, row in enumerate(rows) if row[9:].strip())
    return (high + max(" ▁▂▃▄▅▆▇█".index(cell) for cell in top) / 8) * row_bytes, row_bytes / 8


@pytest.mark.parametrize("axis", ["time", "events", "steps"])
def test_chart_in_the_terminal_is_as_high_as_the_peak(axis, trained):
    """Also where the top cell has several categories and a rest that is empty."""
    path, truth, _ = trained
    height, eighth = drawn_height(path, "--axis", axis)
    assert abs(height - truth["marks"][-1]["max_allocated"]) <= eighth


def test_steps(trained):
    path, _, trace = trained
    rows, (printed,) = trace.table("steps"), json.loads(vramtrace("steps", "--json", path).stdout)["devices"]
    assert trace.head["devices"][0]["median_peak_bytes"] == printed["median_peak_bytes"]
    assert trace.head["devices"][0]["median_duration_ns"] == printed["median_duration_ns"]
    assert {row["device"] for row in rows} == {0}
    for name, of in (("step", ["step"]), ("first_event", ["first_event"]), ("last_event", ["last_event"]), ("duration_ns", ["duration_ns"]),
                     ("t_ns", ["t_ns"]), ("peak_event", ["peak", "event"]), ("peak_used_bytes", ["peak", "used_bytes"]),
                     ("end_used_bytes", ["end", "used_bytes"])):
        values = printed["steps"]
        for key in of:
            values = [value[key] for value in values]
        assert [row[name] for row in rows] == values


def test_tensors_of_parameters(trained):
    """The names and shares of what lies in blocks, against the report's owners at the peak."""
    path, _, trace = trained
    shares = {}
    for allocation in trace.alive(trace.head["devices"][0]["peak_change"]):
        for tensor in trace.tensors_of(allocation):
            shares[tensor["name"]] = shares.get(tensor["name"], 0) + tensor["share_bytes"]
    owners = json.loads(vramtrace("report", "--json", path).stdout)["devices"][0]["peak"]["owners"]
    parameters = {owner["name"]: owner["bytes"] for owner in owners if owner.get("role") == "parameter"}
    assert len(parameters) > 20
    assert {name: shares.get(name) for name in parameters} == parameters
