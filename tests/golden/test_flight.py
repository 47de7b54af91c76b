"""Traces that stay below a limit: what is left of them, against the process's own books."""
import contextlib
import importlib.util
import json
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import ENVIRONMENT, LIBRARY, ROOT, RUN, events, info, report, run, vramtrace  # noqa: E402

MIB = 1 << 20

# Allocates and frees at random, as so many PAIRS say; keeps one block in KEEP. Prints what is alive at the end.
CHURN = """
import ctypes, os, random, sys
cuda = ctypes.CDLL("libcuda.so.1")
ours = ctypes.CDLL(None)
pairs, keep = int(sys.argv[1]), int(sys.argv[2])
context, address = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
random.seed(3)
alive, kept, most = {}, {}, 0
def allocate(size):
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address.value
for i in range(pairs):
    size = random.randrange(1, 1 << 20) << 9
    if i == pairs // 2:
        for _ in range(8):
            alive[allocate(1 << 30)] = 1 << 30
        most = sum(alive.values()) + sum(kept.values())
        for one in [one for one, size_of in alive.items() if size_of == 1 << 30]:
            assert cuda.cuMemFree_v2(ctypes.c_uint64(one)) == 0
            del alive[one]
    if i == pairs // 3:
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 46)) == 2
        assert ours.vramtrace_mark(b"refused") == 1
    one = allocate(random.randrange(1, 1 << 12) << 9)
    if i % keep == 0:
        kept[one] = i
    else:
        alive[one] = i
    if len(alive) > 20:
        one = random.choice(list(alive))
        assert cuda.cuMemFree_v2(ctypes.c_uint64(one)) == 0
        del alive[one]
print(sorted([*alive, *kept]), flush=True)
if len(sys.argv) > 3:
    os.kill(os.getpid(), int(sys.argv[3]))
"""


def churn(trace, pairs, keep=500, limit="1MiB", check=True, end="", **settings):
    settings.setdefault("VRAMTRACE_MODE", "flight")
    return run([sys.executable, "-c", CHURN, pairs, keep, *([end] if end else [])], trace, check=check, VRAMTRACE_LIMIT=limit,
               VRAMTRACE_NATIVE_STACKS="0", **settings)


def alive_at_end(trace):
    alive, unknown = {}, 0
    for event in events(trace, stacks=False):
        if event["layer"] == "driver" and event["kind"] == "alloc":
            alive[int(event["address"], 16)] = event["bytes"]
        elif event["layer"] == "driver" and event["kind"] == "free":
            unknown += alive.pop(int(event["address"], 16), None) is None
    return alive, unknown


def test_what_is_alive_is_there(tmp_path):
    done = churn(tmp_path / "x.vrt", 120000)
    status = (tmp_path / "x.vrt").stat()
    assert max(status.st_size, status.st_blocks * 512) <= MIB
    alive, unknown = alive_at_end(tmp_path / "x.vrt")
    assert sorted(alive) == json.loads(done.stdout) and unknown == 0
    seen = info(tmp_path / "x.vrt")
    assert seen["trace"]["complete"] and seen["trace"]["unkept"] > 100000
    calls = 2 * (120000 + 8) - len(alive)
    assert calls < seen["trace"]["events"] < calls + 500
    kinds = seen["counts"]["kinds"]
    assert kinds["alloc"]["driver"] == 120000 + 8 and kinds["free"]["driver"] == 120000 + 8 - len(alive)
    vramtrace("info", "--verify", tmp_path / "x.vrt")
    said = " ".join(vramtrace("report", "--full", tmp_path / "x.vrt").stdout.split())
    assert "Flight mode kept" in said and "were dropped" in said


def test_tables_fit_together(tmp_path):
    """Events, marks and moments have the same numbers, though events are missing between them."""
    churn(tmp_path / "x.vrt", 60000)
    vramtrace("export", "--format", "sqlite", "-o", tmp_path / "x.sqlite", tmp_path / "x.vrt")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.sqlite")) as database:
        assert database.execute("SELECT kind FROM marks JOIN events USING (event)").fetchall() == [("mark",)]
        for moment in "peak", "end":
            alive = f"SELECT SUM(driver_bytes) FROM alive_at_{moment}"
            (whole, summed), = database.execute(f"SELECT {moment}_driver_bytes, ({alive}) FROM devices")
            assert whole == summed > 0



def test_the_peak_and_the_refusal_are_those_of_the_whole_trace(tmp_path):
    churn(tmp_path / "whole.vrt", 120000, limit="none", VRAMTRACE_MODE="full")
    churn(tmp_path / "flight.vrt", 120000)
    assert (tmp_path / "whole.vrt").stat().st_size > MIB
    told = []
    for name in ("whole", "flight"):
        peak = report(tmp_path / f"{name}.vrt")["devices"][0]["peak"]
        oom = json.loads(vramtrace("oom", "--json", tmp_path / f"{name}.vrt").stdout)
        mark = report(tmp_path / f"{name}.vrt", "--at", "mark:refused")["devices"][0]["at"]
        told.append([peak["driver_bytes"], [one["requested_bytes"] for one in oom["out_of_memory"]], oom["last"]["at"]["driver_bytes"],
                     oom["last"]["missing_bytes"], mark["driver_bytes"]])
    assert told[0] == told[1] and len(told[0][1]) == 1


def test_the_limit_holds_at_any_time(tmp_path):
    """And nobody who reads meanwhile is told wrong things."""
    trace = tmp_path / "x.vrt"
    process = subprocess.Popen([*RUN, "env", f"LD_PRELOAD={LIBRARY}", sys.executable, "-c", CHURN, "150000", "300"],
                               env={**ENVIRONMENT, "VRAMTRACE_OUT": str(trace), "VRAMTRACE_MODE": "flight", "VRAMTRACE_LIMIT": "1MiB",
                                    "VRAMTRACE_QUIET": "1", "VRAMTRACE_NATIVE_STACKS": "0"}, stdout=subprocess.PIPE, text=True)
    largest, reads = 0, 0
    while process.poll() is None:
        if trace.exists() and trace.stat().st_size > 4096:
            largest = max(largest, trace.stat().st_size, trace.stat().st_blocks * 512)
            if largest > 200000:
                seen = info(trace)
                assert seen["disagreements"]["unknown_frees"] == 0, seen
                assert seen["trace"]["damaged_bytes"] == 0, seen
                reads += 1
        time.sleep(0.02)
    assert process.stdout.read() and 300000 < largest <= MIB and reads > 3
    assert alive_at_end(trace)[1] == 0


@pytest.mark.parametrize("turn", range(6))
def test_killed(tmp_path, turn):
    """At any time, also while one region is written to the other."""
    done = churn(tmp_path / "x.vrt", 30000 + turn * 7777, check=False, end=str(int(signal.SIGKILL)))
    assert done.returncode == -signal.SIGKILL
    alive, unknown = alive_at_end(tmp_path / "x.vrt")
    assert sorted(alive) == json.loads(done.stdout) and unknown == 0
    vramtrace("info", "--verify", tmp_path / "x.vrt")


# Rounds of so many blocks each, after which a request fails and the process rests.
ROUNDS = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
alive, size = [], 1
for i in range(10):
    for _ in range(int(sys.argv[1])):
        size = size * 48271 % 0x7fffffff
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size % (1 << 21) + 1)) == 0
        alive.append(address.value)
        if len(alive) > 20:
            assert cuda.cuMemFree_v2(ctypes.c_uint64(alive.pop(size % 20))) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 46)) == 2
    time.sleep(0.5)
print(alive)
"""


def test_chains_that_begin_without_events(tmp_path, monkeypatch):
    """With a reading of NVML, which a failed request asks for, while no block is made."""
    done = run([sys.executable, "-c", ROUNDS, 5300], tmp_path / "x.vrt", VRAMTRACE_MODE="flight", VRAMTRACE_LIMIT="1MiB")
    for budget in ("1", "6000", "9000", "12000", "1000000"):
        monkeypatch.setitem(ENVIRONMENT, "VRAMTRACE_BUDGET_EVENTS", budget)
        alive, unknown = alive_at_end(tmp_path / "x.vrt")
        assert sorted(alive) == sorted(json.loads(done.stdout)) and unknown == 0, budget


def test_the_recording_ends_at_the_limit(tmp_path):
    done = churn(tmp_path / "x.vrt", 150000, VRAMTRACE_MODE="full")
    assert json.loads(done.stdout)
    assert "reached its size limit (VRAMTRACE_LIMIT)" in done.stderr
    assert (tmp_path / "x.vrt").stat().st_size <= MIB
    seen = info(tmp_path / "x.vrt")["trace"]
    assert seen["complete"] is False and seen["events_after_end"] > 1000
    assert "size limit reached" in vramtrace("report", "--full", tmp_path / "x.vrt").stdout


@pytest.mark.parametrize("settings, said", [
    ({"VRAMTRACE_MODE": "fly"}, "VRAMTRACE_MODE=fly is not understood"),
    ({"VRAMTRACE_LIMIT": "12"}, "VRAMTRACE_LIMIT=12 is not understood"),
    ({"VRAMTRACE_LIMIT": "lots"}, "VRAMTRACE_LIMIT=lots is not understood")])
def test_wrong_settings(tmp_path, settings, said):
    done = run([sys.executable, "-c", CHURN, "10", "5"], tmp_path / "x.vrt", **settings)
    assert said in done.stderr and len(alive_at_end(tmp_path / "x.vrt")[0]) == len(json.loads(done.stdout))


def test_soak(tmp_path):
    """The short form of tests/bench/soak.py."""
    specification = importlib.util.spec_from_file_location("soak", ROOT / "tests/bench/soak.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    seen = module.soak(tmp_path, 8, 200000, 2, "2MiB")
    assert seen["disk_maximum_bytes"] <= 2 * MIB and seen["unkept"] > seen["events"] / 2, seen
    assert seen["memory_last_quarter_bytes"] < seen["memory_first_quarter_bytes"] + 2 * MIB, seen
    assert seen["memory_maximum_bytes"] < seen["memory_first_quarter_bytes"] + 8 * MIB, seen  # while a region is rewritten
    assert seen["events"] <= seen["recorded"] + seen["dropped"] < seen["events"] + 20, seen
    assert seen["dropped"] or (seen["alive_bytes"] == seen["alive_in_trace_bytes"] and seen["unknown_frees"] == 0), seen


def test_memory_stays_constant(tmp_path):
    """What the recorder takes of the process's memory after a long run is what it took after a short one."""
    peaks = []
    for pairs in (60000, 240000):
        code = CHURN + "\nprint(open('/proc/self/status').read())\n"
        done = run([sys.executable, "-c", code, pairs, 5000], tmp_path / f"{pairs}.vrt", VRAMTRACE_MODE="flight", VRAMTRACE_LIMIT="1MiB",
                   VRAMTRACE_NATIVE_STACKS="0")
        peaks.append(int(re.search(r"VmHWM:\s*(\d+) kB", done.stdout)[1]) * 1024)
    assert peaks[1] < peaks[0] + 2 * MIB, peaks
