"""Exports of a real training against PyTorch's own counters at its marks: every byte, read by programs that are not ours."""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "readers"))
from exports import go_pprof, pprof_samples, read_perfetto  # noqa: E402
from helpers import events, report, vramtrace  # noqa: E402
from test_bytes import at_marks, train  # noqa: E402

REST = ("context", "cached")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train(tmp_path_factory.mktemp("gpt"), "gpt")


def export(trace, form, at=None):
    out = trace.with_suffix(f".{form}")
    vramtrace("export", "--format", form, *(["--at", at] if at else []), "-o", out, trace)
    return out


def last_mark(trace, truth):
    """The last mark of the forward pass, where most is alive: (its truth, its moment, our report there)."""
    number = sum(mark["name"] == "fwd" for mark in truth["marks"])
    mark, device = [pair for pair in at_marks(trace, truth) if pair[0]["name"] == "fwd"][-1]
    return mark, f"mark:fwd#{number}", device["at"]


def by_category(pairs):
    sums = collections.Counter()
    for category, size in pairs:
        sums[category] += size
    return dict(sums)


def present(categories):
    return {name: size for name, size in categories.items() if size}


def test_folded(trained):
    mark, at, state = last_mark(*trained)
    lines = [line.rsplit(" ", 1) for line in export(trained[0], "folded", at).read_text().splitlines()]
    sums = by_category((frames.split(";")[0], int(size)) for frames, size in lines)
    assert sums == present(state["categories"])
    assert sum(sums.values()) - sum(sums.get(name, 0) for name in REST) == mark["allocated"]


def test_speedscope(trained):
    mark, at, state = last_mark(*trained)
    profiles = json.loads(export(trained[0], "speedscope", at).read_text())["profiles"]
    sums = {profile["name"].removeprefix("GPU 0: "): sum(profile["weights"]) for profile in profiles}
    assert sums.pop("all") == state["driver_bytes"]
    assert sums == present(state["categories"])


def python_frames(stack):
    """Outermost first."""
    return [(frame["function"], frame["file"], frame["line"]) for frame in reversed(stack) if frame["kind"] == "python"]


def test_pprof(trained):
    mark, at, state = last_mark(*trained)
    samples = list(pprof_samples(export(trained[0], "pprof", at)))
    assert sum(size for _, size, labels, _ in samples if labels["kind"] == "block") == mark["allocated"]
    assert by_category((labels["category"], size) for _, size, labels, _ in samples) == present(state["categories"])
    recorded = {tuple(python_frames(event["stack"])) for event in events(trained[0]) if event["kind"] == "alloc"}
    checked = 0
    for _, _, _, frames in samples:
        of_python = tuple(frame for frame in frames if frame[1].endswith(".py"))
        checked += bool(of_python)
        assert not of_python or of_python in recorded
    assert checked > 10
    named = {labels["owner"] for _, _, labels, _ in samples if "owner" in labels}
    assert len(named) > 10 and named <= {group["name"] for group in report(trained[0], "--at", at)["devices"][0]["at"]["owners"]
                                         if group["name"]}


def test_the_top_of_pprof_shows_operators(trained):
    """Go's pprof leaves out what the pattern in the file names: all that an operator calls, down to the allocator."""
    path = export(trained[0], "pprof", last_mark(*trained)[1])
    top = subprocess.run([*go_pprof(), "-top", "-nodefraction=0", path], capture_output=True, text=True, check=True, timeout=60,
                         env={**os.environ, "PPROF_TMPDIR": str(path.parent)}).stdout
    rows = [line.split() for line in top.splitlines() if re.match(r" *[\d.]+[kMG]?B ", line)]
    flat = [words[5] for words in rows if words[0] != "0B"]
    assert "CachingAllocator" not in top and len(flat) > 3
    assert {name for name in flat if not name.startswith(("at::", "torch::", "["))} == set()


ALIVE = """select sum(extract_arg(arg_set_id, 'debug.bytes')) size from slice
    where extract_arg(arg_set_id, 'debug.kind') = 'block' and ts <= {t} and
    (extract_arg(arg_set_id, 'debug.lifetime_ns') is null or ts + extract_arg(arg_set_id, 'debug.lifetime_ns') > {t})"""
IN_USE = """select c.value from counter c join track t on c.track_id = t.id where t.name = '{name}' and c.ts <= {t}
    order by c.ts desc, c.id desc limit 1"""
SLICES = """select s.name, s.ts, s.dur, extract_arg(s.arg_set_id, 'debug.peak_bytes') peak from slice s
    join track t on s.track_id = t.id where t.name = 'steps' and s.depth = 0 order by s.ts"""
MARKS = "select s.name, s.ts from slice s join track t on s.track_id = t.id where t.name = 'marks' order by s.ts, s.id"


def test_perfetto(trained):
    trace, truth = trained
    out = export(trace, "perfetto")
    steps, marks = read_perfetto("query", out, SLICES, MARKS)
    told = json.loads(vramtrace("steps", "--json", trace).stdout)["devices"][0]["steps"]
    began = steps[0]["ts"] - told[0]["t_ns"]
    assert [(step["name"], step["ts"] - began, step["dur"], step["peak"]) for step in steps] == [
        (f"step {step['step']}" if step["step"] else "before", step["t_ns"], step["duration_ns"], step["peak"]["used_bytes"])
        for step in told]
    assert [mark["name"] for mark in marks] == [mark["name"] for mark in truth["marks"]]
    queries = []
    for mark in marks:
        queries += [ALIVE.format(t=mark["ts"]), IN_USE.format(name="in use", t=mark["ts"]), IN_USE.format(name="driver", t=mark["ts"])]
    rows = [row[0] for row in read_perfetto("query", out, *queries)]
    for i, mark in enumerate(truth["marks"]):
        alive, in_use, driver = rows[3 * i:3 * i + 3]
        assert alive["size"] == in_use["value"] == mark["allocated"], mark
        if mark["driver_bytes"] is not None:
            assert driver["value"] == mark["driver_bytes"]


def test_queries_of_the_documentation(trained):
    trace, truth = trained
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "exports.md").read_text()
    modules, largest = read_perfetto("query", export(trace, "perfetto"), *re.findall(r"```sql\n(.*?)```", text, re.S))
    assert {row["name"]: row["bytes"] for row in largest}["in use"] == truth["marks"][-1]["max_allocated"]
    assert modules[0]["bytes"] >= modules[1]["bytes"] > 0
    assert any(row["module"] and "blocks." in row["module"] for row in modules)


def test_perfetto_profile_of_the_peak(trained):
    trace, truth = trained
    peak = report(trace)["devices"][0]["peak"]
    rows = read_perfetto("query", export(trace, "perfetto"),
                         "select heap_name, ts, sum(size) size from heap_profile_allocation group by 1, 2")[0]
    assert [(row["heap_name"], row["size"]) for row in rows] == [("GPU 0", peak["driver_bytes"])]
    blocks = truth["marks"][-1]["max_allocated"]
    assert rows[0]["size"] - sum(peak["categories"][name] for name in REST) == blocks == peak["block_bytes"]
