"""Mixed calls of every family from 8 threads: nothing differs for the program, and the trace ends with the driver's books.

VRAMTRACE_STRESS_CALLS (50000) says how many; docs/testing.md has the long form."""
import collections
import csv
import json
import os
import subprocess

import pytest

from harness import ANALYZER, LIBRARIES, PROGRAMS, environment

CALLS = int(os.environ.get("VRAMTRACE_STRESS_CALLS", "50000"))
SEED = os.environ.get("VRAMTRACE_STRESS_SEED", "1")
THREADS = 8


def play(folder, recorder, reuse):
    folder.mkdir()
    env = environment(recorder, VRAMTRACE_OUT=folder / "trace.vrt", VRAMTRACE_STANDIN_DEVICES=2, VRAMTRACE_STANDIN_FAIL=41,
                      VRAMTRACE_STANDIN_REUSE=reuse, VRAMTRACE_RING="64MiB")
    done = subprocess.run([PROGRAMS / "calls_stress", SEED, str(CALLS), str(THREADS), folder], env=env, text=True,
                          capture_output=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[1]) >= CALLS
    return [(folder / f"results.{number}").read_text() for number in range(THREADS)]


def table(folder, name):
    with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def books(path):
    """What lives by the driver's word: (address or handle, bytes, device) by kind."""
    kinds = collections.defaultdict(set)
    for line in path.read_text().splitlines():
        kind, address, size, device = line.split()
        kinds[kind].add((int(address, 16), int(size), int(device)))
    return kinds


def live(folder):
    """The same by the trace's end. Physical memory goes by its handle, which its first event has."""
    events = table(folder, "events")
    kinds = collections.defaultdict(list)
    for row in table(folder, "allocations"):
        if row["free_event"]:
            continue
        made = events[int(row["alloc_event"])]
        physical = made["kind"] == "handle_create"
        address = int(made["address"] if physical else row["address"])
        kind = ("foreign_" if row["is_foreign"] == "true" else "") + ("physical" if physical else row["kind"])
        kinds[kind].append((address, int(row["bytes"]), int(row["device"])))
    assert all(len(set(rows)) == len(rows) for kind, rows in kinds.items() if kind not in ("pool", "context"))
    return kinds


@pytest.mark.parametrize("reuse", [0, 1], ids=["fresh_addresses", "reused_addresses"])
def test_books(tmp_path, reuse):
    plain = play(tmp_path / "plain", None, reuse)
    traced = play(tmp_path / "traced", LIBRARIES["trace"], reuse)
    for number, (expected, got) in enumerate(zip(plain, traced)):
        assert expected == got, f"thread {number}: a result differs with the hooks"

    trace = tmp_path / "traced" / "trace.vrt"
    subprocess.run([ANALYZER, "info", "--verify", trace], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([ANALYZER, "export", "--format", "csv", "-o", tmp_path / "csv", trace], check=True)
    said, told = books(tmp_path / "traced" / "books"), live(tmp_path / "csv")
    assert said["device"] and said["pooled"] and said["physical"] and said["array"] and said["graphs"]
    assert set(told["driver"]) == said["device"] | said["managed"] | said["array"]
    assert set(told["physical"]) == said["physical"]
    assert set(told["pooled"]) == said["pooled"]
    assert {row[:2] for row in told["host"]} == {row[:2] for row in said["host"] | said["registered"]}
    assert {row[:2] for row in told["foreign_driver"]} == {row[:2] for row in said["foreign"]}
    assert {row[0] for row in told["foreign_physical"]} == {row[0] for row in said["imported"]}
    info = json.loads(subprocess.check_output([ANALYZER, "info", "--json", trace]))["disagreements"]
    assert info["unknown_frees"] == 0 and (reuse or info == dict.fromkeys(info, 0))
    for device in (0, 1):
        assert sum(row[1] for row in told["graph"] if row[2] == device) == \
            sum(row[1] for row in said["graphs"] if row[2] == device)
        assert sum(row[1] for row in told["pool"] if row[2] == device) == \
            sum(row[1] for row in said["reserved"] if row[2] == device)
