"""The data of `vramtrace html`, decoded by docs/page.md alone, against the events of the trace and the report's instants."""
import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess

import pytest

import harness
import page_data
from test_cli import PROGRAM, check_refused, run, write_trace
from test_cli_text import HOSTILE, hostile_trace
from trace_file import ALLOC, DRIVER, FRAMEWORK, FREE, MARK, OOM, TraceFile

MIB = 1 << 20
FRAME = ("kind", "function", "file", "line", "module", "name")
TENSOR = ("name", "role", "module", "dtype", "shape", "bytes", "share_bytes", "evidence")
OF_ONE_CALL = ("block", "segment", "driver", "pooled", "host")  # the others are differences


def make_page(folder, *traces, options=()):
    path = pathlib.Path(folder) / "page.html"
    result = run("html", *options, "-o", path, *traces)
    assert result.returncode == 0, result.stderr
    assert f"wrote {path} (" in result.stderr and "browser" in result.stderr
    return page_data.read(path)


def events_of(trace):
    return [json.loads(line) for line in run("info", "--events", "--stacks", "--json", trace).stdout.splitlines()]


def check_instants(path, trace, count=20):
    """The sums by category of each device, step and phase at some events, against the report's."""
    phases, total = trace.phases(), trace.head["events"]
    for event in sorted({(total - 1) * i // count for i in range(count + 1)} if total else ()):
        document = json.loads(run("report", "--json", "--at", f"event:{event}", path).stdout)
        assert [device["index"] for device in document["devices"]] == [device["index"] for device in trace.head["devices"]]
        for device in document["devices"]:
            categories, driver = page_data.sums_at(trace, trace.change_at(event), device["index"])
            at = device["at"]
            assert categories == {**dict.fromkeys(categories, 0), **at["categories"], "host_pinned": at["host_pinned_bytes"]}
            assert driver == at["driver_bytes"]
            assert page_data.kind_bytes(trace, trace.change_at(event), device["index"], "block") == at["block_bytes"]
            _, phase, step, _ = [run for run in phases if run[0] <= event][-1]
            assert (phase, step) == (at["phase"], at["step"])


def check_changes(trace, events):
    """Every change has the event and the time that the trace has, to a tick."""
    assert trace.head["changes"] == len(trace.events) == len(trace.times)
    touched = {change for a in trace.allocations for change in (a["begin"], a["end"]) if change is not None}
    assert touched == set(range(len(trace.events)))
    latest = 0
    for event, t_ns in zip(trace.events, trace.times):
        latest = max(latest, events[event]["t_ns"])
        assert 0 <= latest - t_ns < trace.head["tick_ns"]
    assert trace.head["duration_ns"] / trace.head["tick_ns"] <= 1 << 24


def lives_of_blocks(events):
    """(alloc event, free event or None, bytes, address) of every framework block that outlived its event."""
    alive, lives = {}, []
    for event in events:
        if event["layer"] != "framework" or event["kind"] not in ("alloc", "free"):
            continue
        key = (event["device"], event["address"])
        if event["kind"] == "alloc":
            alive[key] = event
        elif key in alive:
            made = alive.pop(key)
            lives.append((made["index"], event["index"], made["bytes"], int(made["address"], 16)))
    lives += [(made["index"], None, made["bytes"], int(made["address"], 16)) for made in alive.values()]
    return sorted(lives)


def check_allocations(trace, events):
    """Each allocation against the events that made and ended it; the framework's blocks both ways."""
    assert trace.head["allocations"] == len(trace.allocations)
    blocks = []
    for allocation in trace.allocations:
        klass = trace.class_of(allocation)
        kind = klass["kind"]
        made = events[trace.events[allocation["begin"]]]
        end = None if allocation["end"] is None else trace.events[allocation["end"]]
        # memory of a graph is of the earlier line that captured it
        of = [events[index]["stack"] for index in range(made["index"] + 1)] if kind == "graph" else [made["stack"]]
        assert trace.frames(klass["stack"]) in [[(one["function"], one["file"], one["line"]) for one in stack] for stack in of]
        if made["kind"] == "alloc" and kind in OF_ONE_CALL:
            assert allocation["address"] == int(made["address"], 16)
            assert allocation["bytes"] == made["bytes"]
        if kind == "block":
            blocks.append((made["index"], end, allocation["bytes"], allocation["address"]))
    assert sorted(blocks) == lives_of_blocks(events)


def check_names(trace):
    """Every number that refers to something has it; the categories are those that the page knows."""
    assert trace.strings[0] == ""
    for klass in trace.classes:
        assert -1 <= klass["device"] < 32 and klass["category"] in [category["name"] for category in trace.head["categories"]]
        assert klass["evidence"] and klass["phase"] and klass["kind"]
        assert klass["counted"] in (0, 1) and klass["cached"] in (-1, 0, 1) and klass["driver"] in (0, 1)
    assert set(range(len(trace.classes))) == {allocation["klass"] for allocation in trace.allocations}
    assert len({tuple(klass.values()) for klass in trace.classes}) == len(trace.classes)
    for allocation in {allocation["klass"]: allocation for allocation in trace.allocations}.values():
        assert all(tensor["name"] and tensor["evidence"] for tensor in trace.tensors_of(allocation))


EXPORTED = ("device", "kind", "category", "evidence", "rule", "phase", "owner", "module", "module_class", "operator", "place_name",
            "place_file", "place_line", "place_function")


def check_export(path, trace):
    """Every allocation, its class and its tensors are those of the SQLite export, column by column."""
    database = pathlib.Path(path).with_suffix(".page.db")
    assert run("export", "--format", "sqlite", "-o", database, path).returncode == 0
    with contextlib.closing(sqlite3.connect(database)) as sql:
        sql.row_factory = sqlite3.Row
        rows = sql.execute("SELECT * FROM allocations WHERE free_event IS NULL OR free_event > alloc_event ORDER BY allocation").fetchall()
        frames = {row["frame"]: row for row in sql.execute("SELECT * FROM frames")}
        stacks, lists = {}, {}
        for row in sql.execute("SELECT * FROM stacks ORDER BY stack, depth"):
            stacks.setdefault(row["stack"], []).append(frames[row["frame"]])
        for row in sql.execute("SELECT * FROM tensors ORDER BY rowid"):
            lists.setdefault(row["tensor_list"], []).append(row)
    assert len(rows) == len(trace.allocations)
    for row, ours in zip(rows, trace.allocations):
        klass = trace.class_of(ours)
        assert [klass[name] or None for name in EXPORTED] == [row[name] or None for name in EXPORTED]
        end = None if ours["end"] is None else trace.events[ours["end"]]
        assert (trace.events[ours["begin"]], end, ours["bytes"]) == (row["alloc_event"], row["free_event"], row["bytes"])
        assert ours["address"] == row["address"] % (1 << 64)
        assert [klass[name] * ours["bytes"] for name in ("counted", "cached", "driver")] == [
            row[name] for name in ("counted_bytes", "cached_change_bytes", "driver_bytes")]
        for name in ("stack", "forward_stack"):
            assert [list(map(frame.get, FRAME)) for frame in trace.stacks.get(klass[name], ())] == [
                [frame[of] for of in FRAME] for frame in stacks.get(row[name], ())]
        assert [[tensor[of] or None for of in TENSOR] for tensor in trace.tensors_of(ours)] == [
            [tensor[of] or None for of in TENSOR] for tensor in lists.get(row["tensor_list"], ())]


def check_page(path, folder, instants=20):
    events = events_of(path)
    head, (trace,) = make_page(folder, path)
    assert head["format"] == "vramtrace.page/2" and head["diff"] is None
    assert trace.head["events"] == len(events)
    check_changes(trace, events)
    check_allocations(trace, events)
    check_names(trace)
    check_export(path, trace)
    check_instants(path, trace, instants)
    for name, command in (("report", ["report"]), ("leaks", ["leaks"]), ("oom", ["oom"])):
        check_document(trace.document(name), json.loads(run(*command, "--json", path).stdout))
    return head, trace


def check_document(ours, printed):
    """The report's document has groups of the peak only, and a timeline of fewer columns."""
    for device in [*ours.get("devices", ()), *printed.get("devices", ())]:
        device.pop("timeline", None)
        end = device.get("end", {})
        for by in ("modules", "kinds", "owners", "lines", "stacks", "ops", "evidence"):
            end.pop(by, None)
    assert ours == printed


def record(tmp_path, command, **settings):
    run_of = harness.run(tmp_path, command, "trace", **settings)
    assert run_of.returncode == 0, run_of.output + run_of.error
    return tmp_path / "recorded"


def module(name):
    return harness.PROGRAMS / f"fake_{name}.so"


@pytest.mark.parametrize("family", ["linear", "arrays", "failures", "pools", "capture", "virtual_memory", "foreign", "loads", "contexts"])
def test_families_of_calls(family, tmp_path):
    check_page(record(tmp_path, ["driver_calls", family], VRAMTRACE_STANDIN_MODULE="3MiB"), tmp_path, 8)


def test_several_devices(tmp_path):
    trace = record(tmp_path, ["multicast_calls"], VRAMTRACE_STANDIN_DEVICES=2)
    head, both = check_page(trace, tmp_path)
    assert [device["index"] for device in both.head["devices"]] == [0, 1]
    _, (one,) = make_page(tmp_path, trace, options=["--device", 1])
    assert [device["index"] for device in one.head["devices"]] == [1]
    assert {klass["device"] for klass in one.classes} <= {1, -1}
    check_instants(trace, both)


def test_host_memory_counts_on_every_device(tmp_path):
    trace = TraceFile()
    host = harness.FLAGS["host"]
    for device in (0, 1):
        trace.event(ALLOC, DRIVER, address=(device + 1) << 32, size=MIB, device=device)
    trace.event(ALLOC, DRIVER, address=9 << 32, size=5 * MIB, device=0, flags=host)
    trace.event(FREE, DRIVER, address=2 << 32, device=1)
    trace.event(FREE, DRIVER, address=9 << 32, device=0, flags=host)
    _, page = check_page(trace.write(tmp_path / "x.vrt"), tmp_path)
    for device in (0, 1):
        assert [page_data.sums_at(page, change, device)[0]["host_pinned"] for change in range(5)] == [0, 0, 5 * MIB, 5 * MIB, 0]


def test_a_framework(tmp_path):
    check_page(record(tmp_path, ["late_torch", module("torch_cpu"), module("c10"), module("tool_c10")]), tmp_path)


# ---- Names that are attacks ----

ATTACKS = [b"</script><script>alert(1)</script>", b"<!--<script>", b"</SCRIPT >", b"'\"&amp;<>\\u003c\\",
           "\U0001f4a5\u2028\u2029\u202e\u2066".encode(),
           b"n" * 10_000, b"\xff\xfe\xc0\xaf\xed\xa0\x80", b"new\nline\ttab\r\x01\x1b[31m", HOSTILE]


def attacked_trace(path):
    """Each attack as the process's words, as marks, and as names and files of functions that allocated."""
    trace = TraceFile()
    trace.process([b"python", *ATTACKS], b"/home", b"/bin/" + ATTACKS[0])
    trace.device(0, 80 << 30, ATTACKS[0])
    trace.module(0x1000, 0x9000, b"/lib/" + ATTACKS[0])
    for i, attack in enumerate(ATTACKS, 1):
        trace.string(i, attack)
        trace.code(i, b"/home/" + attack[:2000] + b"/train.py", attack)
        trace.symbol(0x1000 + i, 0x1000, attack)
        trace.stack(i, native=[0x1000 + i], python=[(i, 0, 0)])
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB, stack=1)
    for i in range(1, len(ATTACKS) + 1):
        trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + i * MIB, size=MIB, detail=64 * MIB, total=i * MIB, stack=i)
        trace.event(MARK, detail=i)
    trace.event(OOM, FRAMEWORK, size=1 << 40, detail=64 * MIB, stack=1)
    trace.event(FREE, FRAMEWORK, address=(1 << 32) + MIB, size=MIB, detail=64 * MIB)
    return trace.write(path)


@pytest.mark.parametrize("make", [attacked_trace, hostile_trace])
@pytest.mark.parametrize("title", [None, "</script><b>'\"&\u202e\n"])
def test_attacks_do_not_reach_the_markup(make, title, tmp_path):
    folder = tmp_path / "</script><i>"  # not the name of a file: it may have a "/"
    folder.mkdir(parents=True)
    path = make(folder / "<img src=x>\u202e.vrt")
    head, (trace,) = make_page(tmp_path, path, options=["--title", title] if title else [])
    page = (tmp_path / "page.html").read_text(encoding="utf-8", errors="strict")
    texts = page_data.scripts(page)
    assert "<" not in texts["vramtrace-page"] and not set(texts["vramtrace-page"]) & set("\u2028\u2029\u202e\u2066\x1b\r\n\t")
    assert re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", texts["vramtrace-data"])
    empty = tmp_path / "none.html"
    assert run("html", "-o", empty, write_trace(tmp_path / "none.vrt")).returncode == 0
    plain = page_data.scripts(empty.read_text(encoding="utf-8"))
    for name in page_data.MARKS:  # all else is the same for every trace
        page = page.replace(texts[name], "", 1)
    rest = empty.read_text(encoding="utf-8")
    for name in page_data.MARKS:
        rest = rest.replace(f'id="{name}">{plain[name]}', f'id="{name}">', 1)
    assert page == rest
    assert title is None or head["title"] == title
    check_names(trace)
    for name in ("report", "leaks", "oom"):
        json.dumps(trace.document(name), ensure_ascii=False).encode()  # no lone surrogate


def test_attacks_are_shown_as_they_are(tmp_path):
    path = attacked_trace(tmp_path / "x.vrt")
    events = events_of(path)
    _, (trace,) = make_page(tmp_path, path)
    assert [mark["name"] for mark in trace.head["marks"]] == [event["name"] for event in events if event["kind"] == "mark"]
    assert trace.head["marks"][0]["name"] == ATTACKS[0].decode() and trace.head["marks"][5]["name"] == "n" * 10_000
    check_allocations(trace, events)
    assert ATTACKS[0].decode() in trace.strings


# ---- What the command takes ----

def test_an_empty_trace(tmp_path):
    head, trace = check_page(write_trace(tmp_path / "x.vrt"), tmp_path)
    assert trace.head["changes"] == 0 and trace.head["devices"] == [] and trace.allocations == []
    assert "The trace is empty" in " ".join(trace.head["verdict"])


def small_trace(path, size=MIB, killed=False):
    trace = TraceFile()
    trace.process([b"python", b"train.py"], b"/home", b"/bin/python")
    trace.device(0, 80 << 30, b"GPU")
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB)
    trace.event(ALLOC, FRAMEWORK, address=1 << 32, size=size, detail=64 * MIB, total=size)
    return trace.write(path, state=1 if killed else 2)


def test_ranks(tmp_path):
    """A folder is its traces, in the order of their numbers."""
    job = tmp_path / "job"
    job.mkdir()
    for rank in (10, 2, 1):
        small_trace(job / f"rank{rank}.vrt", rank * MIB)
    (job / "notes.txt").write_text("no trace")
    for operands in ([job], [job / "rank1.vrt", job / "rank2.vrt", job / "rank10.vrt"]):
        head, traces = make_page(tmp_path, *operands)
        assert [trace.head["name"] for trace in traces] == ["rank1", "rank2", "rank10"]
        assert [max(trace.head["devices"][0]["overview"]["driver_bytes"]) for trace in traces] == [64 * MIB] * 3
        for trace, rank in zip(traces, (1, 2, 10)):
            assert page_data.kind_bytes(trace, trace.head["devices"][0]["peak_change"], 0, "block") == rank * MIB
    assert head["title"] == "python train.py" and head["left_out"] == []
    (job / "rank3.vrt").write_bytes(b"")
    page = tmp_path / "left.html"
    result = run("html", "-o", page, job)
    assert result.returncode == 3 and "rank3.vrt" in result.stderr and "skipped 1 of 4 traces" in result.stderr
    head, traces = page_data.read(page)
    assert [trace.head["name"] for trace in traces] == ["rank1", "rank2", "rank10"] and head["left_out"] == [str(job / "rank3.vrt")]
    check_refused(run("html", "-o", tmp_path / "x.html", job / "rank1.vrt", job / "rank3.vrt"), 3, "rank3")
    check_refused(run("html", tmp_path / "none"), 3, "none")
    (tmp_path / "empty").mkdir()
    check_refused(run("html", tmp_path / "empty"), 3, "no traces found in this folder or below")


def test_where_it_is_written(tmp_path):
    small_trace(tmp_path / "run.vrt")
    result = run("html", tmp_path / "run.vrt")
    assert result.returncode == 0 and result.stdout == "" and f"wrote {tmp_path / 'run.html'}" in result.stderr
    size = (tmp_path / "run.html").stat().st_size
    assert f"({size / 1024:.0f} KiB)" in result.stderr or f"({size / MIB:.2f} MiB)" in result.stderr
    assert run("html", tmp_path).returncode == 0 and (tmp_path / "vramtrace.html").exists()
    printed = run("html", "-o", "-", tmp_path / "run.vrt")
    assert printed.stdout == (tmp_path / "run.html").read_text() and printed.stderr == ""
    with open(tmp_path / "run.html", "rb") as old:
        assert run("html", "--device", 7, tmp_path / "run.vrt").returncode == 2
        assert run("html", tmp_path / "run.vrt", tmp_path / "none.vrt").returncode == 3
        assert old.read() == printed.stdout.encode() == (tmp_path / "run.html").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.html", "run.vrt", "vramtrace.html"]
    check_refused(run("html", "-o", tmp_path / "none" / "x.html", tmp_path / "run.vrt"), 4, "create its folder")
    check_refused(run("html", "-o", tmp_path / "run.vrt", tmp_path / "run.vrt"), 2, "would overwrite")
    check_refused(run("html", "--at", "peak", tmp_path / "run.vrt"), 2, "--at is not available", "every moment")
    check_refused(run("html", "-o", "/dev/full", tmp_path / "run.vrt"), 4, "No space left")


def test_not_to_a_terminal(tmp_path):
    small_trace(tmp_path / "run.vrt")
    ours, theirs = os.openpty()
    done = subprocess.run([str(PROGRAM.resolve()), "html", "-o", "-", str(tmp_path / "run.vrt")], stdout=theirs,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60, check=False)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2 and b"refusing to write HTML to the terminal" in done.stderr


def test_comparison(tmp_path):
    a, b = small_trace(tmp_path / "a.vrt"), small_trace(tmp_path / "b.vrt", 3 * MIB)
    head, (first, second) = make_page(tmp_path, a, b, options=["--diff"])
    printed = json.loads(run("diff", "--json", a, b).stdout)
    page = page_data.Trace({"blobs": {"diff": head["diff"]}}, first.data, whole=False)
    assert page.document("diff") == printed
    assert (first.head["name"], second.head["name"]) == ("a", "b")
    for operands in ([a], [a, b, a]):
        check_refused(run("html", "--diff", *operands), 2, "--diff compares two traces")


def test_losses_come_with_the_verdict(tmp_path):
    _, (trace,) = make_page(tmp_path, small_trace(tmp_path / "x.vrt", killed=True))
    assert not trace.head["complete"] and "killed" in trace.head["losses"][0]
    text = " ".join(run("report", tmp_path / "x.vrt", "--width", 1000).stdout.split())
    assert trace.head["verdict"] and all(paragraph in text for paragraph in trace.head["verdict"] + trace.head["losses"])


def test_source_lines(tmp_path):
    script = tmp_path / "train.py"
    lines = [f"line {i}  # </script> '{i}'\n" for i in range(1, 40)]
    script.write_text("".join(lines))
    os.utime(script, (1_600_000_000, 1_600_000_000))
    newer = tmp_path / "newer.py"
    newer.write_text("".join(lines))
    trace = TraceFile()
    for i, file in enumerate((script, newer), 1):
        trace.code(i, os.fsencode(file), b"train", lines=b"\xef\x0a")  # all of it is line 7 + 5
        trace.stack(i, python=[(i, 0, 0)])
        trace.event(ALLOC, DRIVER, address=i << 32, size=MIB, stack=i)
    path = trace.write(tmp_path / "x.vrt")
    _, (page,) = make_page(tmp_path, path)
    assert {klass["place_line"] for klass in page.classes if klass["place_file"] == str(script)} == {12}
    assert page.document("sources") == {str(script): {str(i): lines[i - 1].rstrip("\n") for i in range(9, 16)}}


@pytest.mark.parametrize("count", [64, 65])
def test_many_marks_are_not_in_the_head(tmp_path, count):
    trace = TraceFile()
    trace.event(ALLOC, DRIVER, address=1 << 32, size=MIB)
    for i in range(count):
        trace.string(i + 1, f"mark {i}".encode())
        trace.event(MARK, detail=i + 1)
    path = trace.write(tmp_path / "x.vrt")
    _, (page,) = make_page(tmp_path, path)
    marks = [(number, event["t_ns"], event["name"]) for number, event in enumerate(events_of(path)) if event["kind"] == "mark"]
    assert [(mark["event"], mark["t_ns"], mark["name"]) for mark in page.marks] == marks and len(marks) == count
    assert len(page.head["marks"]) == (count if count == 64 else 0)
