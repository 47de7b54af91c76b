"""Exported tables of a real training against PyTorch's own counters, the report, and each other; every query of docs/tables.md.
Parquet is read by pandas and DuckDB."""
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "readers")]
from exports import go_pprof  # noqa: E402
from helpers import PROGRAM, PYTHON, ROOT, report, run, vramtrace  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "train_script.py"
READERS = os.environ.get("VRAMTRACE_READERS")
STEPS = 4
QUERIES = re.findall(r"```sql\n(.*?);\n```", (ROOT / "docs" / "tables.md").read_text(), re.S)
ALIVE = "device = 0 AND alloc_event <= :event AND (free_event IS NULL OR free_event > :event)"


@pytest.fixture(scope="module", params=["transformer_amp", "resnet50"])
def trained(request, tmp_path_factory):
    """(trace, truth, database)"""
    folder = tmp_path_factory.mktemp(request.param)
    run([PYTHON, SCRIPT, request.param, "--steps", STEPS, "--truth", folder / "truth.json", "--names"], folder / "run.vrt")
    vramtrace("export", "--format", "sqlite", "-o", folder / "run.sqlite", folder / "run.vrt")
    database = sqlite3.connect(folder / "run.sqlite")
    database.row_factory = sqlite3.Row
    return folder / "run.vrt", json.loads((folder / "truth.json").read_text()), database


@pytest.fixture(scope="module")
def readers():
    """A Python with pandas, pyarrow and DuckDB: runs a script, and gives what it prints as JSON."""
    if not READERS:
        pytest.skip("VRAMTRACE_READERS is not set: no Python with pyarrow")

    def read(script, *arguments):
        return json.loads(subprocess.check_output([READERS, "-c", script, *map(str, arguments)], text=True, timeout=120))
    return read


def marks_of(truth, database):
    """(what was true at a mark, its event)"""
    events = [row["event"] for row in database.execute("SELECT event FROM marks ORDER BY event")]
    assert len(events) == len(truth["marks"]) == 3 * STEPS
    return list(zip(truth["marks"], events))


def test_sums_of_allocations_are_what_pytorch_counts(trained):
    _, truth, database = trained
    for mark, event in marks_of(truth, database):
        sums = database.execute("SELECT SUM(CASE kind WHEN 'block' THEN bytes END) AS allocated, "
                                "SUM(CASE kind WHEN 'segment' THEN bytes END) AS reserved, SUM(driver_bytes) AS driver "
                                f"FROM allocations WHERE {ALIVE}", {"event": event}).fetchone()
        assert (sums["allocated"], sums["reserved"]) == (mark["allocated"], mark["reserved"])
        if mark["driver_bytes"] is not None:
            assert sums["driver"] == mark["driver_bytes"]


def test_first_query_is_the_report(trained):
    trace, truth, database = trained
    count = {}
    for mark, event in marks_of(truth, database):
        count[mark["name"]] = count.get(mark["name"], 0) + 1
        told = report(trace, "--at", f"mark:{mark['name']}#{count[mark['name']]}")["devices"][0]["at"]
        sums = dict(tuple(row) for row in database.execute(QUERIES[0], {"event": event}))
        assert sums == {name: size for name, size in told["categories"].items() if size}
        assert sum(sums.values()) == told["driver_bytes"]


def test_instants_are_the_sums_at_every_event(trained):
    """Allocations begin and end: their running sums by category are each instant's columns."""
    _, _, database = trained
    begins, ends = {}, {}
    for row in database.execute("SELECT * FROM allocations WHERE device = 0 OR kind = 'host'"):
        begins.setdefault(row["alloc_event"], []).append(row)
        ends.setdefault(row["free_event"], []).append(row)
    sums, checked = {"driver": 0, "cached": 0}, 0
    instants = {row["event"]: row for row in database.execute("SELECT * FROM instants WHERE device = 0")}
    for event in range(max(instants) + 1):
        for sign, rows in ((1, begins.get(event, ())), (-1, ends.get(event, ()))):
            for row in rows:
                sums[row["category"]] = sums.get(row["category"], 0) + sign * row["counted_bytes"]
                sums["cached"] += sign * row["cached_change_bytes"]
                sums["driver"] += sign * row["driver_bytes"]
        if event in instants:
            for name, size in sums.items():
                assert instants[event][f"{name}_bytes"] == size, (event, name)
            checked += 1
    assert checked > 1000


def test_devices_and_steps_are_the_report(trained):
    trace, _, database = trained
    told = report(trace)["devices"][0]
    row = database.execute("SELECT * FROM devices").fetchone()
    for moment in ("peak", "end"):
        assert row[f"{moment}_block_bytes"] == told[moment]["block_bytes"] and row[f"{moment}_event"] == told[moment]["event"]
        assert {name: row[f"{moment}_{name}_bytes"] for name in told[moment]["categories"]} == told[moment]["categories"]
    steps = json.loads(vramtrace("steps", "--json", trace).stdout)["devices"][0]["steps"]
    rows = database.execute("SELECT step, peak_used_bytes, duration_ns FROM steps ORDER BY step").fetchall()
    assert [tuple(row) for row in rows] == [(step["step"], step["peak"]["used_bytes"], step["duration_ns"]) for step in steps]


def test_peak_is_what_is_alive_there(trained):
    """By category, module and line: the sums of the allocations that are alive at the peak; all of them are what the driver gave."""
    _, _, database = trained
    keys = "category, phase, module, operator, place_name, place_line"
    alive = database.execute(f"SELECT {keys}, SUM(counted_bytes) AS bytes FROM alive_at_peak WHERE counted_bytes > 0 AND kind <> 'context' "
                             f"AND owner IS NULL GROUP BY {keys}")
    told = database.execute(f"SELECT {keys}, SUM(bytes) AS bytes FROM peak WHERE category NOT IN ('cached', 'context') AND owner IS NULL GROUP BY {keys}")
    assert sorted(map(str, map(tuple, told))) == sorted(map(str, map(tuple, alive)))
    device = database.execute("SELECT * FROM devices").fetchone()
    sums = dict(tuple(row) for row in database.execute("SELECT category, SUM(bytes) FROM peak GROUP BY category"))
    assert sums == {name: device[f"peak_{name}_bytes"] for name in sums} and sum(sums.values()) == device["peak_driver_bytes"]
    owned = database.execute("SELECT owner, SUM(bytes) FROM peak WHERE role = 'parameter' GROUP BY owner").fetchall()
    shares = database.execute("SELECT name, SUM(share_bytes) FROM alive_at_peak JOIN tensors USING (tensor_list) WHERE role = 'parameter' GROUP BY name")
    assert owned and sorted(map(tuple, owned)) == sorted(map(tuple, shares.fetchall()))


def test_the_trace_says_what_ran(trained):
    trace, truth, database = trained
    row = database.execute("SELECT * FROM trace").fetchone()
    assert (row["script"], row["python_version"]) == (str(SCRIPT), subprocess.check_output(
        [PYTHON, "-c", "import platform; print(platform.python_version())"], text=True).strip())
    assert row["model"] and row["steps"] == STEPS and row["outcome"] == "complete" and row["loss"] is None
    device = database.execute("SELECT * FROM devices").fetchone()
    assert device["reserved_peak_bytes"] >= max(mark["reserved"] for mark in truth["marks"])
    assert device["driver_peak_bytes"] == database.execute(
        "SELECT MAX(driver_bytes - context_bytes) FROM instants WHERE device = 0").fetchone()[0]


def test_stacks_are_those_of_the_trace(trained):
    trace, _, database = trained
    listed = vramtrace("info", "--events", "--stacks", "--json", trace).stdout.splitlines()
    frames = {}
    for row in database.execute("SELECT stack, depth, file, line, function FROM stacks JOIN frames USING (frame) ORDER BY stack, depth"):
        frames.setdefault(row["stack"], []).append((row["file"], row["line"], row["function"]))
    for line in listed[::37]:
        event = json.loads(line)
        row = database.execute("SELECT * FROM events WHERE event = ?", (event["index"],)).fetchone()
        assert (row["kind"], row["t_ns"], row["address"]) == (event["kind"], event["t_ns"], int(event["address"], 16))
        assert frames.get(row["stack"], []) == [(frame["file"], frame["line"], frame["function"]) for frame in event["stack"]]


def test_tensors(trained):
    """The shares of an allocation's tensors sum to its bytes; parameters have the sizes that PyTorch says."""
    _, truth, database = trained
    wrong = database.execute("SELECT allocation FROM tensors JOIN allocations USING (tensor_list) GROUP BY allocation "
                             "HAVING SUM(tensors.share_bytes) <> MAX(allocations.bytes)").fetchall()
    assert not wrong
    lists = database.execute("SELECT COUNT(DISTINCT tensor_list) FROM allocations WHERE tensor_list").fetchone()[0]
    assert 0 < lists == database.execute("SELECT COUNT(DISTINCT tensor_list) FROM tensors").fetchone()[0]
    told = database.execute(f"SELECT SUM(counted_bytes) FROM allocations WHERE category IN ('parameter', 'buffer') AND {ALIVE}",
                            {"event": marks_of(truth, database)[-1][1]}).fetchone()[0]
    assert told == sum(truth["marks"][-1]["categories"][name] for name in ("parameter", "buffer"))


@pytest.mark.parametrize("query", QUERIES, ids=range(1, len(QUERIES) + 1))
def test_queries_of_the_page(query, trained):
    _, _, database = trained
    event = database.execute("SELECT peak_event FROM devices").fetchone()[0]
    rows = database.execute(query, {"event": event} if ":event" in query else {}).fetchall()
    assert rows or "'oom'" in query or "is_leak" in query
    assert not rows or all(row[key] is not None for row in rows for key in row.keys() if key.endswith("bytes"))


def test_there_are_ten_queries():
    assert len(QUERIES) >= 10


# ---- Parquet ----

DUCKDB = """
import duckdb, glob, json, os, sys
folder, event, views, queries = sys.argv[1], int(sys.argv[2]), *map(json.loads, sys.argv[3:])
database = duckdb.connect()
for path in glob.glob(folder + "/*.parquet"):
    name = os.path.basename(path)[:-8]
    database.execute(f"CREATE VIEW {name} AS SELECT * {'EXCLUDE (trace)' if name != 'trace' else ''} FROM '{path}'")
for view in views:
    database.execute(view.replace("char(10)", "chr(10)"))
print(json.dumps([database.execute(query.replace(":event", str(event))).fetchall() for query in queries], default=str))
"""
PANDAS = """
import json, pandas, pyarrow.parquet, sys
folder = sys.argv[1]
rows = pandas.read_parquet(folder + "/allocations.parquet")
alive = [rows[(rows.device == 0) & (rows.alloc_event <= event) & (rows.free_event.isna() | (rows.free_event > event))]
         for event in map(int, sys.argv[2:])]
schema = pyarrow.parquet.read_schema(folder + "/allocations.parquet")
print(json.dumps({"block_bytes": [int(part[part.kind == "block"].bytes.sum()) for part in alive],
                  "trace": rows.trace.unique().tolist(), "types": {field.name: str(field.type) for field in schema},
                  "unit": schema.field("bytes").metadata[b"unit"].decode(),
                  "rows": {table: pyarrow.parquet.read_metadata(f"{folder}/{table}.parquet").num_rows
                           for table in ("events", "allocations", "stacks", "frames", "instants", "marks", "columns")}}))
"""


def export_parquet(folder, *traces):
    done = subprocess.run([str(PROGRAM), "export", "--format", "parquet", "-o", folder, *traces], capture_output=True, text=True,
                          env={**os.environ, "VRAMTRACE_PYTHON": READERS}, timeout=120)
    assert done.returncode == 0 and all(line.startswith("vramtrace export: wrote ") for line in done.stderr.splitlines()), done.stderr
    return folder


@pytest.fixture(scope="module")
def parquet(trained, readers, tmp_path_factory):
    return export_parquet(tmp_path_factory.mktemp("parquet") / "run", trained[0])


def test_pandas_reads_parquet(trained, parquet, readers):
    _, truth, database = trained
    marks = marks_of(truth, database)
    told = readers(PANDAS, parquet, *[event for _, event in marks])
    assert told["block_bytes"] == [mark["allocated"] for mark, _ in marks]
    assert told["trace"] == ["run.vrt"] and told["unit"] == "bytes"
    assert (told["types"]["bytes"], told["types"]["cached_change_bytes"], told["types"]["is_foreign"], told["types"]["owner"]) == (
        "int64", "int64", "bool", "string")
    assert (told["types"]["t_ns"], told["types"]["address"]) == ("int64", "uint64")  # what is subtracted is signed
    for table, rows in told["rows"].items():
        assert rows == database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]


def test_a_csv_export_is_converted_later(trained, parquet, readers, tmp_path):
    """On another machine, by the Python package alone: the same files."""
    vramtrace("export", "--format", "csv", "-o", tmp_path / "run", trained[0])
    subprocess.run([READERS, "-m", "vramtrace.parquet", "--trace", "run.vrt", tmp_path / "run"], check=True, timeout=120,
                   env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == {
        path.name: path.read_bytes() for path in parquet.iterdir()}


def test_duckdb_gives_the_same_answers(trained, parquet, readers):
    _, _, database = trained
    event = database.execute("SELECT peak_event FROM devices").fetchone()[0]
    views = [row["sql"] for row in database.execute("SELECT sql FROM sqlite_master WHERE type = 'view' ORDER BY name")]
    told = readers(DUCKDB, parquet, event, json.dumps(views), json.dumps(QUERIES))
    for query, theirs in zip(QUERIES, told):
        ours = [list(row) for row in database.execute(query, {"event": event} if ":event" in query else {})]
        assert len(ours) == len(theirs)
        if "LIMIT" not in query:  # where rows are equal in what they are ordered by, either may be cut
            assert sorted(map(str, ours)) == sorted(map(str, theirs)), query


def test_traces_of_a_job_are_read_together(trained, readers, tmp_path):
    for name in ("rank0.vrt", "rank1.vrt"):
        (tmp_path / name).symlink_to(trained[0])
    (tmp_path / "job").mkdir()
    script = ("import duckdb, json, sys; print(json.dumps(duckdb.sql(f\"SELECT trace, peak_block_bytes FROM "
              "'{sys.argv[1]}/*/devices.parquet' ORDER BY trace\").fetchall()))")
    export_parquet(tmp_path / "job", "--summary", tmp_path / "rank0.vrt", tmp_path / "rank1.vrt")
    assert {path.stem for path in (tmp_path / "job" / "rank0-parquet").iterdir()} == {
        "trace", "devices", "peak", "leaks", "out_of_memory", "columns"}
    peak = report(trained[0])["devices"][0]["peak"]["block_bytes"]
    assert readers(script, tmp_path / "job") == [["rank0.vrt", peak], ["rank1.vrt", peak]]


def test_top_of_pprof_is_not_the_allocator(tmp_path):
    """Go's pprof drops the frames within the allocator: all that it calls flat would be its innermost function."""
    program = "import torch\ndef make():\n    return torch.empty(1 << 20, device='cuda')\nkept = [make() for _ in range(4)]\n"
    (tmp_path / "makes.py").write_text(program)
    run([PYTHON, tmp_path / "makes.py"], tmp_path / "x.vrt")
    vramtrace("export", "--format", "pprof", "-o", tmp_path / "x.pb.gz", tmp_path / "x.vrt")
    top = subprocess.run([*go_pprof(), "-sample_index=1", "-top", tmp_path / "x.pb.gz"], capture_output=True, text=True, check=True).stdout
    rows = {line.split()[-1]: line.split() for line in top.splitlines()}
    assert rows["make"][3] == "16MB" and "alloc_found_block" not in top and "CachingAllocator" not in top, top
    assert [name for name, row in rows.items() if row[0] == "16MB"] == ["torch::autograd::THPVariable_empty"], top
