"""The tables of a trace as CSV and SQLite, PyTorch's snapshot, and docs/results/columns.md: made-up traces, read by Python's own
readers."""

import csv
import io
import json
import os
import pathlib
import pickle
import pickletools
import resource
import signal
import sqlite3
import subprocess
import sys

import pytest

from test_cli import PROGRAM, run, usual_signals
from test_cli_text import hostile_trace
from trace_file import ALLOC, CONTEXT_CREATE, DRIVER, FRAMEWORK, FREE, MARK, TraceFile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
import make_tables  # noqa: E402

MIB = 1 << 20
TABLES = ["events", "allocations", "stacks", "frames", "tensors", "steps", "phases", "marks", "requests", "instants", "trace", "devices",
          "peak", "leaks",
          "out_of_memory", "cards", "columns"]
SUMMARY = ["trace", "devices", "peak", "leaks", "out_of_memory", "columns"]
# What a spreadsheet, a shell, a page or a database could stumble over; no letter that a trace does not keep.
NAMES = ["'; DROP TABLE events; --", '"', '""', ",", ";a,b;", "=cmd()", "a\nb", "\t", " ", "</script>", "émoji 🦊", "\u202eturned",
         "n" * 10_000, "NULL", "null", "true", "0", "-1", "\\N", "%s%n", "\\", "{}"]


def little_trace(path):
    """A segment with two blocks, one of which is freed, and direct memory; marks with strange names; numbers that are large."""
    trace = TraceFile()
    trace.process([b"python"], b"/", b"/bin/python")
    trace.device(0, 80 << 30, b"GPU")
    trace.code(1, b"/home/a,b\n\"c\".py", b"Model.forward")
    trace.stack(1, python=[(1, 0, 0)])
    trace.event(CONTEXT_CREATE, DRIVER, address=1)
    trace.event(ALLOC, DRIVER, address=1 << 32, size=20 * MIB, stack=1)
    trace.event(ALLOC, FRAMEWORK, address=1 << 32, size=8 * MIB, detail=20 * MIB, total=8 * MIB, stack=1)
    trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + 8 * MIB, size=MIB, detail=20 * MIB, total=9 * MIB, stack=1)
    trace.event(ALLOC, DRIVER, address=1 << 40, size=3 * MIB, detail=(1 << 64) - 2)
    for number, name in enumerate(NAMES, 1):
        trace.string(number, name.encode())
        trace.event(MARK, detail=number)
    trace.event(FREE, FRAMEWORK, address=1 << 32, size=8 * MIB, detail=20 * MIB, total=MIB)
    return trace.write(path)


@pytest.fixture
def little(tmp_path):
    return little_trace(tmp_path / "little.vrt")


@pytest.fixture
def hostile(tmp_path):
    return hostile_trace(os.fsencode(tmp_path) + b"/\xff\x1b[31m\n" + "é\u202e.vrt".encode())


def export(trace, form, target, *options, **settings):
    return subprocess.run([str(PROGRAM.resolve()), "export", "--format", form, "-o", target, *options, trace], capture_output=True,
                          timeout=60, stdin=subprocess.DEVNULL, **settings)


def exported(trace, form, target, *options):
    done = export(trace, form, target, *options)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (0, b"", 1)
    return target


def read_csv(folder):
    """{table: (columns, rows)} as RFC 4180 has them. Python's reader cannot tell null from an empty text: both are ""."""
    tables = {}
    for path in folder.iterdir():
        text = path.read_bytes().decode("utf-8", "strict")
        columns, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        tables[path.stem] = (columns, rows)
        assert path.suffix == ".csv" and all(len(row) == len(columns) for row in rows)
    return tables


def read_sqlite(path):
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    tables = {}
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        cursor = database.execute(f"SELECT * FROM {table} ORDER BY rowid")
        tables[table] = ([column[0] for column in cursor.description], cursor.fetchall())
    return tables


def as_csv(value, kind):
    """A cell of SQLite as CSV writes it."""
    if value is None:
        return ""
    if kind == "boolean":
        return "true" if value else "false"
    return str(value + (1 << 64) if kind == "unsigned" and value < 0 else value)


@pytest.mark.parametrize("make", [little_trace, hostile_trace])
def test_csv_and_sqlite_hold_the_same(make, tmp_path):
    trace = make(os.fsencode(tmp_path) + b"/x.vrt" if make is hostile_trace else tmp_path / "x.vrt")
    texts = read_csv(exported(trace, "csv", tmp_path / "tables"))
    tables = read_sqlite(exported(trace, "sqlite", tmp_path / "x.sqlite"))
    assert sorted(texts) == sorted(tables) == sorted(TABLES)
    kinds = {(row[0], row[1]): row[2] for row in tables["columns"][1]}
    for table, (columns, rows) in tables.items():
        assert columns == texts[table][0] == [column for name, column in kinds if name == table]
        told = [[as_csv(value, kinds[table, column]) for value, column in zip(row, columns)] for row in rows]
        assert sorted(told) == sorted(texts[table][1]), table
    assert tables["events"][1] and tables["allocations"][1] and tables["stacks"][1] and tables["instants"][1]


def test_names_are_kept(little, tmp_path):
    texts = read_csv(exported(little, "csv", tmp_path / "tables"))
    tables = read_sqlite(exported(little, "sqlite", tmp_path / "x.sqlite"))
    columns, rows = texts["marks"]
    assert [row[columns.index("name")] for row in rows] == NAMES
    assert [row[columns.index("name")] for row in tables["marks"][1]] == NAMES
    assert ["/home/a,b\n\"c\".py"] == [row[texts["frames"][0].index("file")] for row in texts["frames"][1]]


def test_null_and_empty_differ_in_csv(little, tmp_path):
    folder = exported(little, "csv", tmp_path / "tables")
    assert b'\r\nevents,kind,text,,"alloc, free, ' in (folder / "columns.csv").read_bytes()  # kind has no unit
    assert b',weak,"",' in (folder / "allocations.csv").read_bytes()  # no rule gave the context its category


def test_large_numbers(little, tmp_path):
    columns, rows = read_csv(exported(little, "csv", tmp_path / "tables"))["events"]
    assert str((1 << 64) - 2) in [row[columns.index("detail")] for row in rows]
    database = sqlite3.connect(exported(little, "sqlite", tmp_path / "x.sqlite"))
    assert database.execute("SELECT COUNT(*) FROM events WHERE detail = -2").fetchone() == (1,)


def test_what_a_hostile_trace_says(hostile, tmp_path):
    told = json.loads(subprocess.check_output([PROGRAM.resolve(), b"report", b"--json", hostile]))
    tables = read_sqlite(exported(hostile, "sqlite", tmp_path / "x.sqlite"))
    columns, (device,) = tables["devices"]
    assert device[columns.index("name")] == told["devices"][0]["name"] and '"quoted"' in told["devices"][0]["name"]
    columns, (trace,) = tables["trace"]
    assert trace[columns.index("file")] == told["trace"]["file"] and trace[columns.index("command")] == told["trace"]["command"]


@pytest.mark.parametrize("form", ["csv", "sqlite"])
def test_summary_is_of_any_length(form, little, tmp_path, monkeypatch):
    """The same rows with and without the other tables, which have each event, however long the trace is."""
    read = read_csv if form == "csv" else read_sqlite
    whole = exported(little, form, tmp_path / "whole")
    monkeypatch.setenv("VRAMTRACE_BUDGET_EVENTS", "3")
    assert read(exported(little, form, tmp_path / "long")) == read(whole)
    told, some = read(whole), read(exported(little, form, tmp_path / "some", "--summary"))
    assert sorted(some) == sorted(SUMMARY)
    for table in ("devices", "peak", "leaks", "out_of_memory"):
        assert some[table] == told[table]
    assert {row[0] for row in some["columns"][1]} == set(SUMMARY)


def test_peak_rows_sum_to_the_device(little, tmp_path):
    tables = read_sqlite(exported(little, "sqlite", tmp_path / "x.sqlite"))
    (device,) = [dict(zip(tables["devices"][0], row)) for row in tables["devices"][1]]
    rows = [dict(zip(tables["peak"][0], row)) for row in tables["peak"][1]]
    assert sum(row["bytes"] for row in rows) == device["peak_driver_bytes"]
    assert {row["category"]: row["bytes"] for row in rows if row["category"] in ("cached", "context")} == {
        name: device[f"peak_{name}_bytes"] for name in ("cached", "context") if device[f"peak_{name}_bytes"]}
    assert sum(row["blocks"] for row in rows) == 2 and sum(row["bytes"] for row in rows
                                                           if row["place_function"] == "Model.forward") == 9 * MIB


def test_one_table(little):
    shown = run("export", "--format", "csv", "--table", "devices", little)
    assert shown.returncode == 0
    ((device),) = csv.DictReader(io.StringIO(shown.stdout, newline=""))
    assert (device["device"], device["name"], device["peak_block_bytes"]) == ("0", "GPU", str(9 * MIB))


@pytest.mark.parametrize("words, said", [
    (["csv"], "use -o FOLDER, or --table TABLE"), (["parquet"], "use -o FOLDER"),
    (["sqlite"], "cannot be written to a pipe"), (["sqlite", "-o", "/dev/null"], "/dev/null is not one"),
    (["sqlite", "--table", "steps", "-o", "x"], "--table chooses one table of --format csv; sqlite always has all of them"),
    (["pprof", "--table", "steps", "-o", "x"], "pprof has no tables"),
    (["pprof", "--summary", "-o", "x"], "other formats have none"), (["csv", "--summary", "--table", "peak"], "so does --table"),
    (["csv", "--table", "blocks"], "blocks"), (["csv", "--at", "end", "-o", "x"], "no --at")])
def test_wrong_use(words, said, little, tmp_path):
    done = subprocess.run([PROGRAM.resolve(), "export", "--format", *words, little], capture_output=True, text=True, cwd=tmp_path,
                          timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr and len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["little.vrt"]


def test_a_folder_that_is_there_gets_one_for_each_trace(little, tmp_path):
    (tmp_path / "out").mkdir()
    little_trace(tmp_path / "other.vrt")
    done = run("export", "--format", "csv", "-o", tmp_path / "out", little, tmp_path / "other.vrt")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["little-csv", "other-csv"]
    done = run("export", "--format", "csv", "-o", tmp_path / "out", little)
    assert done.returncode == 4 and "File exists; remove it, or give another folder" in done.stderr
    assert len(list((tmp_path / "out").iterdir())) == 2


# Whole or not at all.


@pytest.mark.parametrize("form", ["csv", "sqlite", "memory-viz"])
def test_nothing_is_left_of_what_could_not_be_written(form, little, tmp_path):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
    done = export(little, form, tmp_path / "out", preexec_fn=small_files)
    assert done.returncode == 4 and b"cannot write" in done.stderr and len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["little.vrt"]


def test_full_disk(little):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM.resolve(), "export", "--format", "csv", "--table", "events", little], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 4 and "No space left on device" in done.stderr


@pytest.mark.parametrize("python, said", [
    ("/nowhere/python", "cannot start /nowhere/python: No such file or directory; it converts to Parquet: install Python 3 with pyarrow"),
    ("false", "false ended with status 1"), (sys.executable, "needs pyarrow")])
def test_parquet_without_pyarrow(python, said, little, tmp_path):
    hidden = tmp_path / "hidden" / "pyarrow"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError")
    done = export(little, "parquet", tmp_path / "out", env={**os.environ, "VRAMTRACE_PYTHON": python, "PYTHONPATH": str(hidden.parent)})
    assert done.returncode == 4 and said in done.stderr.decode() and len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hidden", "little.vrt"]


def test_nothing_in_the_current_folder_is_run(little, tmp_path):
    folder = tmp_path / "current"
    folder.mkdir()
    for name in ("csv", "argparse", "pyarrow", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')")
    export(little, "parquet", tmp_path / "out", cwd=folder, env={**os.environ, "VRAMTRACE_PYTHON": sys.executable})
    assert not (tmp_path / "was_run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(number, little, tmp_path):
    """The converter sends it, when all tables are there as CSV; it ends too."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nls \"$5\" >{tmp_path}/seen\necho $$ >{tmp_path}/pid\nkill -{int(number)} $PPID\n"
                      "exec sleep 60 >&- 2>&-\n")
    python.chmod(0o755)
    done = export(little, "parquet", tmp_path / "out", env={**os.environ, "VRAMTRACE_PYTHON": str(python)}, preexec_fn=usual_signals)
    assert (done.returncode, done.stdout) == (-number, b"")
    assert "instants.csv" in (tmp_path / "seen").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["little.vrt", "pid", "python", "seen"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


# PyTorch's snapshot.

# What PyTorch's own snapshots consist of, which its viewer in the browser reads, and nothing that could run code.
PLAIN = {"FRAME", "APPEND", "SETITEM", "PROTO", "MARK", "STOP", "EMPTY_DICT", "EMPTY_LIST", "SETITEMS", "APPENDS", "TUPLE2", "NEWTRUE",
         "NEWFALSE", "BININT", "BININT1",
         "BININT2", "LONG1", "SHORT_BINUNICODE", "BINUNICODE", "MEMOIZE", "BINGET", "LONG_BINGET"}


@pytest.mark.parametrize("make", [little_trace, hostile_trace])
def test_snapshot_is_plain_data(make, tmp_path):
    trace = make(os.fsencode(tmp_path) + b"/x.vrt" if make is hostile_trace else tmp_path / "x.vrt")
    data = exported(trace, "memory-viz", tmp_path / "x.pickle").read_bytes()
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= PLAIN
    pickletools.dis(data, out=io.StringIO())  # its stack and memo are consistent
    snapshot = pickle.loads(data)
    assert sorted(snapshot) == ["allocator_settings", "device_traces", "external_annotations", "segments"]
    json.dumps(snapshot, ensure_ascii=False).encode("utf-8", "strict")


def test_snapshot_of_a_little_trace(little, tmp_path):
    def snapshot(*options):
        return pickle.loads(exported(little, "memory-viz", tmp_path / "x.pickle", *options).read_bytes())
    at_end, at_peak = snapshot(), snapshot("--at", "peak")
    cached, direct = at_end["segments"]
    assert (cached["address"], cached["total_size"], cached["allocated_size"]) == (1 << 32, 20 * MIB, MIB)
    assert [(block["address"], block["size"], block["state"]) for block in cached["blocks"]] == [
        (1 << 32, 8 * MIB, "inactive"), ((1 << 32) + 8 * MIB, MIB, "active_allocated"), ((1 << 32) + 9 * MIB, 11 * MIB, "inactive")]
    assert cached["blocks"][1]["frames"] == [{"name": "forward", "filename": "/home/a,b\n\"c\".py", "line": 0}]
    assert (direct["address"], direct["total_size"], direct["vramtrace_kind"]) == (1 << 40, 3 * MIB, "driver")
    assert [entry["action"] for entry in at_end["device_traces"][0]] == [
        "segment_alloc", "alloc", "alloc", "segment_alloc", "alloc", "free_requested", "free_completed", "snapshot"]
    assert [block["state"] for block in at_peak["segments"][0]["blocks"]] == ["active_allocated", "active_allocated", "inactive"]
    assert [entry["action"] for entry in at_peak["device_traces"][0]] == ["segment_alloc", "alloc", "alloc", "snapshot"]
    assert {entry["name"] for entry in at_end["external_annotations"]} >= set(NAMES)
    assert at_end["device_traces"][0][0]["time_us"] == (1_700_000_000_000_000_000 + 1_999_872) // 1000  # in ticks of 256 ns


# The page.


def test_the_page_is_current(little):
    told = make_tables.PAGE.read_text()
    assert told == make_tables.described(PROGRAM.resolve(), little), "docs/make_tables.py PROGRAM TRACE --write"
    for table in TABLES:
        assert f"## {table}\n" in told
