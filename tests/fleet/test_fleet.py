"""examples/fleet over many traces: nothing is lost, each failure is named, and figures are what the programs counted themselves.

VRAMTRACE_FLEET: how many traces (60; the long form: 2000, with 20 damaged and 4 workers). Needs VRAMTRACE_READERS, a Python
with Dask, DuckDB and pyarrow.
"""
import collections
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import corpus as corpora  # noqa: E402
from helpers import PROGRAM, ROOT  # noqa: E402

READERS = os.environ.get("VRAMTRACE_READERS")
COUNT = int(os.environ.get("VRAMTRACE_FLEET", 60))
LONG = COUNT >= 1000
WORKERS, DAMAGED, PART = (4, 20, 32) if LONG else (2, 11, 4)
FLEET, REDUCE = ROOT / "examples" / "fleet" / "fleet.py", ROOT / "examples" / "fleet" / "reduce.py"
NAMES = r"(?P<label>v\d+)/(?P<job>[^/]+)/(rank(?P<rank>\d+))?"
CONTEXT_BYTES = 300 << 20  # of the stand-in
TABLES = ("files", "trace", "devices", "peak", "leaks", "out_of_memory")
# What is said of each kind of damage.
SAID = {"empty": "is empty", "text": "not a vramtrace trace", "only a magic": "cut off within its header", "future": "written in format 99",
        "unknown feature": "uses format features (0x100000)", "flipped magic": "not a vramtrace trace",
        "unreadable": "Permission denied", "a dangling link": "No such file"}
# Root reads what nobody may read, unless it cannot.
AS_USER = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
# vramtrace, with a line in a log for each trace that it is asked for, a while later; and what a trace's name asks for.
WRAPPER = """#!/bin/sh
echo "$PPID" >>"$FLEET_LOG"
sleep {pause}
case "$*" in
*kills_its_worker*) kill -9 $PPID ;;
*dies*) kill -9 $$ ;;
*hangs*) exec sleep 100 ;;
esac
exec {program} "$@"
"""

pytestmark = pytest.mark.skipif(not READERS, reason="VRAMTRACE_READERS is not set: no Python with Dask and DuckDB")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """(folder, {path: what is true of it}, {path: how it is damaged})"""
    folder = tmp_path_factory.mktemp("fleet") / "traces"
    folder.mkdir()
    corpora.make(folder, COUNT, DAMAGED)
    told = json.loads((folder / "truth.json").read_text())
    return folder, told["traces"], told["damaged"]


def start(out, *words, program=PROGRAM, **environment):
    return subprocess.Popen([*AS_USER, READERS, FLEET, "-o", out, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "VRAMTRACE": str(program), **environment})


def fleet(out, *words, **settings):
    """(exit status, what it printed)"""
    process = start(out, *words, **settings)
    said, _ = process.communicate(timeout=3000)
    return process.returncode, said


def wrapper(folder, pause):
    path = folder / "vramtrace"
    path.write_text(WRAPPER.format(pause=pause, program=PROGRAM))
    path.chmod(0o755)
    return path, folder / "log"


def query(out, sql):
    """Rows as dicts, by DuckDB, with the views of reduce.py."""
    script = ("import json, sys; sys.path.insert(0, sys.argv[1]); import reduce; done = reduce.connect(sys.argv[2]).execute(sys.argv[3]); "
              "names = [column[0] for column in done.description]; print(json.dumps([dict(zip(names, row)) for row in done.fetchall()]))")
    return json.loads(subprocess.check_output([READERS, "-c", script, FLEET.parent, out, sql], text=True, timeout=300))


def everything(out, root):
    """{table: its rows, sorted}, without what may differ from run to run."""
    tables = {}
    for table in TABLES:
        rows = query(out, f"SELECT * EXCLUDE (part{', seconds' if table == 'files' else ''}) FROM {table}")
        tables[table] = sorted(json.dumps(row, sort_keys=True).replace(str(root), "") for row in rows)
    return tables


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """The tables as one process makes them."""
    out = tmp_path_factory.mktemp("alone") / "tables"
    begin = time.monotonic()
    status, said = fleet(out, corpus[0], "--names", NAMES, "--workers", 0)
    print(f"one process: {len(corpus[1]) + len(corpus[2])} traces in {time.monotonic() - begin:.1f} s")
    unread = sum(kind in SAID for kind in corpus[2].values())
    assert status == 1 and f"{COUNT + DAMAGED} read, {unread} of them could not be" in said, said
    return out


def test_each_trace_is_there_once_and_each_failure_is_named(corpus, alone):
    folder, truth, damaged = corpus
    rows = {row["trace"]: row for row in query(alone, "SELECT * FROM files")}
    assert len(rows) == len(query(alone, "SELECT trace FROM files")) == COUNT + DAMAGED
    assert rows.keys() == {str(folder / path) for path in [*truth, *damaged]}
    losses = {row["trace"]: row["loss"] for row in query(alone, "SELECT trace, loss FROM runs")}
    for path in truth:
        assert rows[str(folder / path)]["read"] and losses[str(folder / path)] is None
    for path, kind in damaged.items():
        row = rows[str(folder / path)]
        if kind in SAID:
            assert not row["read"] and SAID[kind] in row["reason"] and str(folder / path) not in losses, kind
        else:
            assert row["read"] and losses[str(folder / path)] == "the file is damaged", kind
    if DAMAGED >= len(corpora.DAMAGES):
        assert set(damaged.values()) == set(corpora.DAMAGES)


def test_figures_are_what_the_programs_counted(corpus, alone):
    folder, truth, _ = corpus
    runs = {row["trace"]: row for row in query(alone, "SELECT * FROM runs")}
    devices = {row["trace"]: row for row in query(alone, "SELECT * FROM devices")}
    functions, sums = collections.defaultdict(dict), {}
    for row in query(alone, "SELECT trace, place_function, sum(bytes)::BIGINT AS bytes FROM peak GROUP BY ALL"):
        functions[row["trace"]][(row["place_function"] or "").rpartition(".")[2]] = row["bytes"]
        sums[row["trace"]] = sums.get(row["trace"], 0) + row["bytes"]
    leaks = {row["trace"]: row["bytes"] for row in query(alone,
                                                         "SELECT trace, max(bytes_per_step) AS bytes FROM leaks WHERE is_leak GROUP BY 1")}
    for path, true in truth.items():
        trace = str(folder / path)
        run, device = runs[trace], devices[trace]
        assert (run["label"], run["job"], run["rank"]) == (true["label"], true["job"], true["rank"])
        assert sums[trace] == device["peak_driver_bytes"]
        if "functions" in true:
            assert run["peak_used_bytes"] == true["peak_bytes"] == sum(true["functions"].values())
            assert run["driver_peak_bytes"] + CONTEXT_BYTES == true["driver_peak_bytes"]
            assert {name: size for name, size in functions[trace].items() if name} == true["functions"]
            assert run["ended_by_out_of_memory"] == bool(true["refused"])
        else:
            assert (run["peak_block_bytes"], run["reserved_peak_bytes"]) == (true["peak_block_bytes"], true["reserved_peak_bytes"])
            assert run["model"] == true["model"] and device["peak_parameter_bytes"] == true["parameter_bytes"]
            assert leaks.get(trace, 0) == true["leak_bytes_per_step"]
    # What the trace itself says, where the path does not.
    assert {row["label"] for row in query(alone, "SELECT t.label FROM trace t WHERE loss IS NULL")} == {"v1", "v2"}


def test_results_are_those_of_plain_python(corpus, alone):
    _, truth, damaged = corpus
    done = subprocess.run([READERS, REDUCE, alone, "--compare", "v1", "v2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for title in ("Peak by job", "Peak by rank", "Peak by model", "Lines that hold most", "Not read", "Jobs, from v1 to v2", "What made"):
        assert title in done.stdout

    def result(name):
        return query(alone, f"SELECT * FROM '{alone}/results/{name}.parquet'")
    whole = {path: true.get("peak_bytes", true.get("peak_block_bytes")) for path, true in truth.items()}
    jobs, models, ranks = (collections.defaultdict(list) for _ in range(3))
    for path, true in truth.items():
        jobs[true["label"], true["job"]].append(whole[path])
        ranks[true["label"], true["job"], true["rank"]].append(whole[path])
        if "model" in true:
            models[true["label"], true["model"]].append(whole[path])
    told = {(row["label"], row["job"]): row for row in result("by_job")}
    assert {key: row["peak_bytes"] for key, row in told.items()} == {key: max(peaks) for key, peaks in jobs.items()}
    assert sum(row["with_losses"] for row in told.values()) == sum(kind not in SAID for kind in damaged.values())
    assert sum(row["out_of_memory"] for row in told.values()) == sum(bool(true.get("refused")) for true in truth.values())
    assert {(row["label"], row["job"], row["rank"]): row["peak_bytes"] for row in result("by_rank")} == {
        key: max(peaks) for key, peaks in ranks.items()}
    assert {(row["label"], row["model"]): (row["traces"], row["peak_bytes"]) for row in result("by_model")} == {
        key: (len(peaks), max(peaks)) for key, peaks in models.items()}
    lines = {row["line"].rpartition(".")[2]: row for row in result("by_line") if "hold.py" in row["line"]}
    exact = {row["f"]: row for row in query(alone,
                                            "SELECT regexp_extract(place_function, '[^.]*$') AS f, count(*) AS traces, max(bytes) AS bytes "
                                                   "FROM lines JOIN runs USING (trace) WHERE whole GROUP BY 1")}
    for function in ("weights", "cache", "scratch"):
        bytes_of = [true["functions"][function] for true in truth.values() if function in true.get("functions", ())]
        assert (exact[function]["traces"], exact[function]["bytes"]) == (len(bytes_of), max(bytes_of))
        # ... and those of which a part could be read.
        assert len(bytes_of) <= lines[function]["traces"] <= len(bytes_of) + len(damaged) and lines[function]["bytes"] >= max(bytes_of)
    # DuckDB rounds what lies between two.
    medians = {key: statistics.median(peaks) for key, peaks in jobs.items()}
    changes = {job: (medians["v1", job], medians["v2", job]) for _, job in jobs if ("v1", job) in medians and ("v2", job) in medians}
    told = {row["job"]: (row["old_bytes"], row["new_bytes"]) for row in result("changed_jobs")}
    assert told.keys() == {job for job, (old, new) in changes.items() if old != new} and told
    for job, both in told.items():
        assert both == pytest.approx(changes[job], abs=1)


def test_a_killed_worker_loses_nothing(corpus, alone, tmp_path):
    folder, _, _ = corpus
    program, log = wrapper(tmp_path, 0.1 if not LONG else 0.02)
    begin = time.monotonic()
    process = start(tmp_path / "tables", folder, "--names", NAMES, "--workers", WORKERS, "--part", PART, program=program,
                    FLEET_LOG=str(log))
    while len(list(tmp_path.glob("tables/part=*"))) < max(2, COUNT // PART // 3):
        assert process.poll() is None and time.monotonic() < begin + 1200
        time.sleep(0.05)
    victim = int(log.read_text().split()[-1])
    os.kill(victim, signal.SIGKILL)
    parts = len(list(tmp_path.glob("tables/part=*")))
    said, _ = process.communicate(timeout=3000)
    print(f"{WORKERS} workers, one killed after {parts} parts: {time.monotonic() - begin:.1f} s")
    assert process.returncode == 1 and f"{COUNT + DAMAGED} read" in said, said
    asked = log.read_text().split()
    assert len(asked) > COUNT + DAMAGED  # what the killed one was at was done again
    assert len(set(asked)) == WORKERS + 1  # by another
    assert parts < (COUNT + DAMAGED) // PART
    assert everything(tmp_path / "tables", folder) == everything(alone, folder)
    assert not list(tmp_path.glob("tables/.unfinished/*"))


def test_it_goes_on_where_it_ended(corpus, alone, tmp_path):
    """Killed as a whole, then with more traces, one of which has changed."""
    folder, truth, _ = corpus
    program, log = wrapper(tmp_path, 0.1)
    some = sorted(truth)[:12]
    for path in some:
        (tmp_path / "traces" / path).parent.mkdir(parents=True, exist_ok=True)
        os.link(folder / path, tmp_path / "traces" / path)
    words = [tmp_path / "traces", "--names", NAMES, "--workers", 0, "--part", 3]
    process = start(tmp_path / "tables", *words, program=program, FLEET_LOG=str(log))
    while len(list(tmp_path.glob("tables/part=*"))) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate()
    left = 12 - 3 * len(list(tmp_path.glob("tables/part=*")))
    assert fleet(tmp_path / "tables", *words)[1].startswith(f"fleet: 12 traces, {left} to read")
    assert fleet(tmp_path / "tables", *words) == (0, "fleet: 12 traces, 0 to read, in 0 parts\n")
    more = sorted(truth)[12]
    os.link(folder / more, tmp_path / "traces" / "more.vrt")
    changed = tmp_path / "traces" / some[0]
    changed.unlink()
    changed.write_bytes((folder / sorted(truth)[20]).read_bytes())
    status, said = fleet(tmp_path / "tables", *words)
    assert (status, said.splitlines()[0]) == (0, "fleet: 13 traces, 4 to read, in 2 parts")  # its part, and the new one
    peaks = {row["trace"]: row["peak_used_bytes"] for row in query(tmp_path / "tables", "SELECT trace, peak_used_bytes FROM runs")}
    true = {str(tmp_path / "traces" / path): truth[path] for path in some[1:]}
    true.update({str(changed): truth[sorted(truth)[20]], str(tmp_path / "traces" / "more.vrt"): truth[more]})
    assert peaks == {path: one["peak_bytes"] for path, one in true.items()}


def test_what_cannot_be_looked_into_is_named(corpus, tmp_path):
    folder, truth, _ = corpus
    (tmp_path / "traces" / "locked").mkdir(parents=True)
    os.link(folder / sorted(truth)[0], tmp_path / "traces" / "one.vrt")
    (tmp_path / "traces" / "locked").chmod(0)
    try:
        status, said = fleet(tmp_path / "tables", tmp_path / "traces", "--workers", 0)
    finally:
        (tmp_path / "traces" / "locked").chmod(0o755)
    assert status == 1 and f"Permission denied: '{tmp_path}/traces/locked'" in said and "1 traces, 1 to read" in said
    status, said = fleet(tmp_path / "tables", tmp_path / "nothing", "--workers", 0)
    assert (status, said) == (1, f"fleet: {tmp_path}/nothing: there is nothing of this name\n")


def test_shards_are_the_whole(corpus, alone, tmp_path):
    folder, _, _ = corpus
    for number in range(3):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(number), "FLEET": str(FLEET.parent), "PYTHONPATH": str(ROOT / "python"),
                       "VRAMTRACE": str(PROGRAM), "PATH": f"{pathlib.Path(READERS).parent}:{os.environ['PATH']}"}
        done = subprocess.run([*AS_USER, "bash", FLEET.parent / "fleet.sbatch", "3", tmp_path / "tables", folder, "--names", NAMES],
                              env=environment, capture_output=True, text=True, timeout=3000)
        assert done.returncode in (0, 1) and "read" in done.stdout, done.stderr
    assert everything(tmp_path / "tables", folder) == everything(alone, folder)


def test_traces_of_a_store(corpus, alone, tmp_path):
    """A store that is no folder: here an archive. Each trace is copied, read and thrown away."""
    folder, truth, _ = corpus
    some = [*sorted(truth)[:3], *sorted(truth)[-3:]]
    with zipfile.ZipFile(tmp_path / "traces.zip", "w") as archive:
        for path in some:
            archive.write(folder / path, path)
    status, said = fleet(tmp_path / "tables", f"zip::file://{tmp_path}/traces.zip", "--names", NAMES, "--workers", 0)
    assert status == 0, said
    told = "SELECT label, job, rank, peak_used_bytes FROM runs"
    wanted = [[truth[path][key] for key in ("label", "job", "rank")] for path in some]
    rows = [list(row.values()) for row in query(tmp_path / "tables", told)]
    assert sorted(row[:3] for row in rows) == sorted(wanted)
    assert all(row in [list(one.values()) for one in query(alone, told)] for row in rows)


def test_traces_that_kill_are_named(corpus, tmp_path):
    folder, truth, _ = corpus
    program, log = wrapper(tmp_path, 0)
    (tmp_path / "traces").mkdir()
    names = ["one", "two", "kills_its_worker", "dies", "hangs", "three"]
    for name, path in zip(names, sorted(truth)):
        os.link(folder / path, tmp_path / "traces" / f"{name}.vrt")
    status, said = fleet(tmp_path / "tables", tmp_path / "traces", "--workers", 1, "--part", 3, "--timeout", 2, program=program,
                         FLEET_LOG=str(log), DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    assert status == 1, said
    reasons = {pathlib.Path(row["trace"]).stem: row["reason"] for row in query(tmp_path / "tables", "SELECT trace, reason FROM files")}
    assert reasons == {"one": None, "two": None, "three": None, "dies": "vramtrace was killed by signal 9",
                       "hangs": "vramtrace took longer than 2 s", "kills_its_worker": "the worker that read it was killed, several times"}
