"""vramtrace list: what each made-up trace holds is known from how it was made."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "tests")]
import growth  # noqa: E402
from harness import LIBRARIES, STANDIN  # noqa: E402
from test_cli import check_refused, run, write_trace  # noqa: E402
from test_jobs import write_rank  # noqa: E402
from trace_file import ALLOC, DRIVER, FRAMEWORK, FREE, MARK, OOM, START_NS, TraceFile  # noqa: E402

MIB = 1 << 20
SECOND = 1_000_000_000
# In struct vt_file_header: after chunks_end, the counters, unfinished_records and the process.
IDENTITY = 216 + 8 * (4 + 4 * 32 + 3) + 8 + 48
BEGAN = 1_700_000_000


def make(path, began=0, peak=64, ran_s=1, oom_in_step=None, goes_on=False, state=2, command=(b"python", b"train.py")):
    """PEAK MiB in use at most."""
    trace = TraceFile(started_ns=(BEGAN + began) * SECOND)
    trace.process([*command], b"/work", b"/usr/bin/python")
    trace.device(0, 1 << 30, b"Test GPU")
    trace.string(1, b"vramtrace.step")
    trace.event(ALLOC, DRIVER, address=1 << 32, size=peak * MIB)
    for _ in range(oom_in_step + 1 if oom_in_step else 0):  # what comes after the last mark counts as the last step's
        trace.event(MARK, detail=1)
    if oom_in_step is not None:
        trace.event(OOM, FRAMEWORK, size=900 * MIB)
    if goes_on:
        trace.event(ALLOC, DRIVER, address=2 << 32, size=MIB)
        trace.event(FREE, DRIVER, address=2 << 32, size=MIB)
    trace.event(FREE, DRIVER, address=1 << 32, size=peak * MIB, after_ns=ran_s * SECOND - (trace.t_ns - START_NS))
    return trace.write(path, state=state)


def rows(*arguments, status=0, env=None, cwd=None):
    result = run("list", "--json", *arguments, env=env, cwd=cwd)
    assert result.returncode == status, result.stderr
    told = json.loads(result.stdout)
    assert told["format"] == "vramtrace.list/2"
    return told["rows"]


def test_each_run_has_a_row_the_newest_first(tmp_path):
    make(tmp_path / "old.vrt", 0, 10)
    make(tmp_path / "new.vrt", 60, 30, ran_s=7, command=(b"/usr/bin/python", b"other.py"))
    (tmp_path / "below").mkdir()
    make(tmp_path / "below" / "middle.vrt", 30, 20)
    os.utime(tmp_path / "new.vrt", (1, 1))
    told = rows(cwd=tmp_path)
    assert [(row["name"], row["peak_used_bytes"] // MIB) for row in told] == [("new.vrt", 30), ("below/middle.vrt", 20), ("old.vrt", 10)]
    assert told[0]["command"] == "python other.py" and told[0]["gpu"] == "Test GPU"
    assert (told[0]["start_realtime_ns"], told[0]["duration_ns"]) == ((BEGAN + 60) * SECOND, 7 * SECOND)
    result = run("list", cwd=tmp_path, env={"COLUMNS": "120", "TZ": "UTC"})
    assert (result.returncode, result.stderr) == (0, "")
    title, first, *_ = result.stdout.splitlines()
    assert title.split() == ["Trace", "began", "ran", "peak", "outcome", "command", "GPU"]
    assert first.split() == ["new.vrt", "2023-11-14", "7.00", "s", "30", "MiB", "complete", "python", "other.py", "Test", "GPU"]
    assert len(run("list", "-n", "2", cwd=tmp_path).stdout.splitlines()) == 4
    assert len(rows("-n", "2", cwd=tmp_path)) == 2
    for width in (40, 60, 80):
        assert all(len(line) <= width for line in run("list", "--width", width, cwd=tmp_path).stdout.splitlines())


@pytest.mark.parametrize("made,outcome", [
    ({}, "complete"), ({"oom_in_step": 4}, "OUT OF MEMORY at step 4"), ({"oom_in_step": 0}, "OUT OF MEMORY"),
    ({"oom_in_step": 4, "goes_on": True}, "complete, ran out of memory but continued"),
    ({"oom_in_step": 4, "state": 4}, "OUT OF MEMORY at step 4"), ({"state": 4}, "killed, or left by _exit"),
    ({"state": 1}, "killed, or still running"), ({"state": 3}, "recording stopped")])
def test_outcomes(made, outcome, tmp_path):
    make(tmp_path / "x.vrt", **made)
    (row,) = rows(cwd=tmp_path)
    assert (row["outcome"], row["out_of_memory"]) == (outcome, outcome.startswith("OUT OF MEMORY"))
    assert len(row["traces"][0]["out_of_memory"]) == ("oom_in_step" in made)
    shown = run("list", cwd=tmp_path, env={"COLUMNS": "150"}).stdout
    assert outcome in shown
    assert "\033" in run("list", "--color=always", cwd=tmp_path).stdout


def test_a_job_is_one_row(tmp_path):
    (tmp_path / "job").mkdir()
    for rank in range(4):
        write_rank(tmp_path / "job" / f"x.{rank}.vrt", rank, sizes=[64 * MIB] * (1 + (rank == 2)))
    for rank in (0, 2):  # another launch, beside other traces
        write_rank(tmp_path / f"y.{rank}.vrt", rank, world=3, started_ns=3600 * SECOND, TORCHELASTIC_RUN_ID="y")
    make(tmp_path / "single.vrt", 9999)
    told = rows(cwd=tmp_path)
    assert [row["name"] for row in told] == ["single.vrt", "y.0.vrt +1", "job/"]
    assert [row["missing_ranks"] for row in told] == [0, 1, 0]
    assert [trace["rank"] for trace in told[2]["traces"]] == [0, 1, 2, 3]
    assert [trace["peak_used_bytes"] // MIB for trace in told[2]["traces"]] == [64, 64, 128, 64]
    assert told[2]["peak_used_bytes"] == 128 * MIB
    shown = run("list", cwd=tmp_path, env={"COLUMNS": "150"}).stdout
    assert "4 × python train.py" in shown and "1 rank missing" in shown
    assert run("report", told[2]["name"], cwd=tmp_path).returncode == 0  # what the row is called is what report takes


def test_the_rank_that_fell(tmp_path):
    for rank in range(3):
        trace = TraceFile()
        trace.process([b"python", b"train.py"], b"/work", b"/usr/bin/python")
        trace.record(26, f"RANK={rank}\0WORLD_SIZE=3\0TORCHELASTIC_RUN_ID=x\0".encode())
        trace.event(ALLOC, DRIVER, address=1 << 32, size=MIB)
        if rank == 1:
            trace.event(OOM, FRAMEWORK, size=900 * MIB)
        trace.write(tmp_path / f"x.{rank}.vrt", state=2 if rank == 1 else 4)
    write_rank(tmp_path / "y.0.vrt", 0, world=1, started_ns=-3600 * SECOND, TORCHELASTIC_RUN_ID="y")
    row, other = rows(tmp_path)
    assert (row["outcome"], row["out_of_memory"]) == ("OUT OF MEMORY, rank 1", True)
    assert (other["out_of_memory"], len(other["traces"])) == (False, 1)


def test_what_cannot_be_read_is_named(tmp_path):
    make(tmp_path / "good.vrt")
    (tmp_path / "notes.vrt").write_text("notes\n" * 5000)
    (tmp_path / "empty.vrt").touch()
    result = run("list", cwd=tmp_path)
    assert result.returncode == 3
    assert sorted(result.stderr.splitlines()) == [
        "vramtrace list: empty.vrt: empty: the process ended before anything was recorded; run it again and read its last line",
        "vramtrace list: notes.vrt: not a vramtrace trace (record one with: vramtrace run COMMAND)"]
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["Trace", "good.vrt"]
    (tmp_path / "good.vrt").unlink()
    assert run("list", cwd=tmp_path).stdout == ""


def test_no_traces(tmp_path):
    check_refused(run("list", cwd=tmp_path), 3, "no traces found in this folder or below", "vramtrace run")
    check_refused(run("list", tmp_path / "none"), 3, "none: No such file")


def test_snapshots_of_a_trace_are_left_out(tmp_path):
    """Those of one process have one identity (format 2)."""
    for name in ("run.vrt", "vramtrace.4711.snapshot.vrt", "other.vrt"):
        write_trace(tmp_path / name)
    for name, identity in (("run.vrt", 7), ("vramtrace.4711.snapshot.vrt", 7), ("other.vrt", 8)):
        data = bytearray((tmp_path / name).read_bytes())
        struct.pack_into("<II", data, 8, 3, 3)
        data[IDENTITY:IDENTITY + 16] = bytes([identity] * 16)
        (tmp_path / name).write_bytes(data)
    result = run("list", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert (len(told["rows"]), told["copies"]) == (2, 1)
    assert "Not shown: 1 snapshot of these processes." in run("list", cwd=tmp_path).stdout


def test_of_long_traces_only_the_head_is_read(tmp_path):
    """Never as if nothing had happened there."""
    events = growth.grow("refusals", 100000, tmp_path / "long.vrt")
    make(tmp_path / "short.vrt", 9999)
    (whole,) = [row for row in rows(cwd=tmp_path) if row["name"] == "long.vrt"]
    assert whole["examined"] and whole["traces"][0]["out_of_memory"] and whole["peak_used_bytes"]
    limit = {"VRAMTRACE_BUDGET_EVENTS": str(events // 10)}
    (head,) = [row for row in rows(cwd=tmp_path, env=limit) if row["name"] == "long.vrt"]
    assert (head["examined"], head["peak_used_bytes"]) == (False, None)
    assert "out_of_memory" not in head and "out_of_memory" not in head["traces"][0]
    assert head["traces"][0]["events"] == events
    for same in ("command", "duration_ns", "start_realtime_ns"):
        assert head[same] == whole[same]
    shown = run("list", cwd=tmp_path, env={**limit, "COLUMNS": "150"}).stdout
    assert "not examined" in shown and "Name one to see it." in shown and " – " in shown


def test_one_that_runs_and_one_that_was_killed(tmp_path):
    program = ("import ctypes, sys\n"
               "cuda, context, address = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64()\n"
               "cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0); cuda.cuCtxSetCurrent(context)\n"
               "assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(3 << 20)) == 0\n"
               "print(flush=True); sys.stdin.read()\n")
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "LD_PRELOAD": str(LIBRARIES["trace"]), "LD_LIBRARY_PATH": str(STANDIN),
             "VRAMTRACE_OUT": str(tmp_path / "x.vrt")})
    try:
        process.stdout.readline()
        deadline = time.monotonic() + 20
        while not (tmp_path / "x.vrt").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        (row,) = rows(cwd=tmp_path)
        assert (row["outcome"], row["peak_used_bytes"], row["traces"][0]["pid"]) == ("still running", 3 << 20, process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (row,) = rows(cwd=tmp_path)
    assert row["outcome"] == "killed, or left by _exit"
    assert row["peak_used_bytes"] == 3 << 20
