"""The table of a card where not everything is known: processes that NVML does not tell or not fully (containers, virtual
GPUs), readings that do not fit, damaged ones. What is not known is shown as that."""
import functools
import json
import os
import subprocess

import pytest

from card_process import MIB, PAUSE, finish, read, rows, start
from trace_file import ALLOC, DRIVER, FREE, MARK, MEMORY_INFO, TraceFile
from harness import ANALYZER


def beside_another(tmp_path, *steps, **settings):
    """(its report's device, its books, the other's books): a process beside one that is not traced and came first."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    early, mine, others = (tmp_path / name for name in ("early", "mine", "others"))
    other = start(None, "alloc:100", f"truth:{others}", f"ready:{early}", f"wait:{mine}", **shared)
    finish(start(tmp_path / "a.vrt", f"wait:{early}", "alloc:40", *steps, PAUSE, f"truth:{mine}", **shared, **settings), other)
    return read(tmp_path / "a.vrt"), json.loads(mine.read_text()), json.loads(others.read_text())


@pytest.mark.parametrize("mode, why", [("empty", "without_this"), ("without-us", "without_this"), ("host-pids", "without_this"),
                                       ("no-bytes", "without_bytes"), ("no-permission", "not_listed")])
def test_processes_that_are_not_told(tmp_path, mode, why):
    """Then its context and the others are one row; whoever is listed stands beside the sum."""
    device, mine, other = beside_another(tmp_path, VRAMTRACE_STANDIN_NVML=mode)
    table = device["last_gpu"]
    assert (table["processes_known"], table["processes"], table["own_unexplained_bytes"]) == (False, why, None)
    assert table["device_bytes"] == mine["own"] + other["own"]
    assert rows(table) == {"category": mine["allocation"], "context_and_processes": mine["context"] + other["own"],
                           "unexplained": 0}
    listed = [(row["pid"], row["bytes"], row["command"]) for row in table["not_counted"] if row["kind"] == "process"]
    shift = 3000000 if mode == "host-pids" else 0
    assert sorted(pid for pid, *_ in listed) == sorted(
        pid + shift for pid in {"empty": (), "no-permission": (), "without-us": (other["pid"],)}.get(
            mode, (mine["pid"], other["pid"])))
    assert {size for _, size, _ in listed} <= ({None} if mode == "no-bytes" else {mine["own"], other["own"]})
    if mode != "no-bytes":
        assert all(command is None for *_, command in listed)
    text = subprocess.check_output([ANALYZER, "report", "--full", tmp_path / "a.vrt"], text=True)
    assert "Other processes cannot be separated from this process's context" in " ".join(text.split())


def test_one_whose_bytes_are_not_told(tmp_path):
    device, mine, other = beside_another(tmp_path, VRAMTRACE_STANDIN_NVML="no-bytes-of-others")
    table = device["last_gpu"]
    assert table["processes_known"] and rows(table) == {"category": mine["allocation"], "context": mine["context"],
                                                        "unexplained": other["own"]}
    assert [(row["pid"], row["bytes"]) for row in table["not_counted"]] == [(other["pid"], None)]
    assert table["own_unexplained_bytes"] == 0
    (advice,) = table["advice"]
    assert advice["kind"] == "unexplained" and advice["bytes"] == other["own"]
    text = subprocess.check_output([ANALYZER, "report", "--full", tmp_path / "a.vrt"], text=True)
    assert f"process {other['pid']}" in text and "unknown" in text


NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")


@pytest.mark.skipif(os.geteuid() != 0 or subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode != 0,
                    reason="no pid namespaces of our own here")
@pytest.mark.parametrize("mode", [None, "clash", "host-pids", "without-us"])
def test_in_a_pid_namespace_of_its_own(tmp_path, mode):
    """Listed by its own number it is found; a number of the host's that is ours by chance is not taken for us."""
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    early, end = tmp_path / "early", tmp_path / "end"
    other = ["alloc:100", f"truth:{tmp_path / 'other'}", f"ready:{early}", f"wait:{end}"]
    mine = [f"wait:{early}", "alloc:40", PAUSE, f"truth:{books}", f"ready:{end}"]
    finish(start(trace, *mine, before=NAMESPACE, together=other, VRAMTRACE_STANDIN_SHARED=tmp_path / "shared",
                 **({"VRAMTRACE_STANDIN_NVML": mode} if mode else {})))
    books, others = json.loads(books.read_text()), json.loads((tmp_path / "other").read_text())
    table = read(trace)["last_gpu"]
    assert books["pid"] < 100 and table["nested"]
    assert table["device_bytes"] == books["own"] + others["own"]
    if mode is None:
        assert rows(table) == {"category": 40 * MIB, "context": books["context"], others["pid"]: others["own"], "unexplained": 0}
    else:
        assert table["processes"] == "without_this"
        assert rows(table) == {"category": 40 * MIB, "context_and_processes": books["context"] + others["own"], "unexplained": 0}


# ---- Made by hand: what does not fit together ----

GIB = 1 << 30
NOT_TOLD = (1 << 64) - 1


def made(tmp_path, fill):
    """A process with a context of 300 MiB beside 100 MiB of others', which then has 40 MiB."""
    trace = TraceFile()
    trace.event(MEMORY_INFO, DRIVER, size=16 * GIB - 400 * MIB, total=16 * GIB)
    trace.event(ALLOC, DRIVER, 0x1000000, 40 * MIB)
    fill(trace)
    trace.write(tmp_path / "made.vrt")
    return read(tmp_path / "made.vrt")


def test_a_moment_without_a_reading_of_its_own(tmp_path):
    """What the others have is as when it was told; the sum is moved by what this process had more or less."""
    def fill(trace):
        trace.card_use(450 * MIB, [(7, 340 * MIB, b"me"), (8, 110 * MIB, b"you")], own=0)
        trace.event(ALLOC, DRIVER, 0x8000000, 60 * MIB, after_ns=60_000_000)
        trace.event(FREE, DRIVER, 0x8000000, after_ns=60_000_000)
    device = made(tmp_path, fill)
    for table, moved in ((device["gpu"], 60 * MIB), (device["last_gpu"], 0)):
        assert table["moved_bytes"] == moved and table["device_bytes"] == 450 * MIB + moved and table["steady"]
        assert rows(table) == {"category": 40 * MIB + moved, "context": 300 * MIB, 8: 110 * MIB, "unexplained": 0}


def test_unexplained_of_this_process_and_of_others(tmp_path):
    """Both at once: neither is said to be all of it."""
    def fill(trace):
        trace.card_use(400 * MIB, [(7, 340 * MIB, b"me"), (8, (1 << 64) - 1, b"other")], own=0)
        trace.event(MARK)
        trace.card_use(600 * MIB, [(7, 390 * MIB, b"me"), (8, (1 << 64) - 1, b"other")], own=0)
    table = made(tmp_path, fill)["last_gpu"]
    (advice,) = [advice for advice in table["advice"] if advice["kind"] == "unexplained"]
    assert table["own_unexplained_bytes"] == 50 * MIB and rows(table)["unexplained"] == advice["bytes"] == 260 * MIB
    assert "50 MiB of it" in advice["why"] and "bytes of all processes" in advice["why"]


def test_a_reading_while_memory_changes(tmp_path):
    """It is taken only if there is no other, and said to be unsteady."""
    def fill(trace):
        trace.card_use(440 * MIB, [(7, 340 * MIB, b"me")], own=0, begin_ns=trace.t_ns + 1000)
        steady.append(trace.t_ns)
        if len(steady) > 1:
            trace.card_use(345 * MIB, [(7, 345 * MIB, b"me")], own=0)
    steady = []
    table = made(tmp_path, fill)["gpu"]
    assert not table["steady"] and table["device_bytes"] == 440 * MIB and table["processes_known"]
    assert rows(table) == {"category": 40 * MIB, "context": 300 * MIB, "unlisted": 100 * MIB, "unexplained": 0}
    table = made(tmp_path, fill)["gpu"]
    assert table["steady"] and table["device_bytes"] == 345 * MIB
    assert rows(table) == {"category": 40 * MIB, "context": 305 * MIB, "unexplained": 0}


def test_more_is_known_than_was_in_use(tmp_path):
    """Unexplained is negative, and the sum holds."""
    def fill(trace):
        trace.card_use(440 * MIB, [(7, 340 * MIB, b"me"), (8, 100 * MIB, b"")], own=0)
        trace.card_use(420 * MIB, [(7, 340 * MIB, b"me"), (8, 100 * MIB, b"")], own=0, begin_ns=trace.t_ns + 90_000_000)
    table = made(tmp_path, fill)["last_gpu"]
    assert rows(table) == {"category": 40 * MIB, "context": 300 * MIB, 8: 100 * MIB, "unexplained": -20 * MIB}
    assert table["rows"][-1]["kind"] == "unexplained" and [row["command"] for row in table["rows"] if row["kind"] == "process"] == [None]


def test_an_allocation_that_is_recorded_late(tmp_path):
    """On a busy machine a reading may have 20 MiB that the trace has not yet, long before their event: the context is the least."""
    def fill(trace):
        trace.card_use(360 * MIB, [(7, 360 * MIB, b"me")], own=0)
        trace.event(ALLOC, DRIVER, 0x8000000, 20 * MIB, after_ns=60_000_000)
        trace.card_use(360 * MIB, [(7, 360 * MIB, b"me")], own=0, begin_ns=trace.t_ns + 60_000_000)
    table = made(tmp_path, fill)["last_gpu"]
    assert rows(table) == {"category": 60 * MIB, "context": 300 * MIB, "unexplained": 0}


def test_no_more_than_the_card_has(tmp_path):
    """The same with no other reading, and so much that the sum could not be: nothing is told of the card then."""
    def fill(trace, late):
        trace.card_use(340 * MIB + 9 * GIB, [(7, 340 * MIB + 9 * GIB, b"me")], own=0)
        trace.event(ALLOC, DRIVER, 0x8000000, late, after_ns=60_000_000)
    for late, known in ((9 * GIB, False), (GIB, True)):
        device = made(tmp_path, functools.partial(fill, late=late))
        assert bool(device.get("gpu")) == known
        assert not known or device["gpu"]["device_bytes"] <= 16 * GIB


def test_a_list_that_is_not_ours(tmp_path):
    """Pids of another namespace; and one that would have less than was recorded, so it cannot be this process."""
    def fill(trace, own):
        trace.card_use(440 * MIB, [(7, 340 * MIB, b""), (8, 100 * MIB, b"")], own=own)
    for own in (0xffffffff, 2):
        table = made(tmp_path, functools.partial(fill, own=own))["gpu"]
        assert not table["processes_known"]
        assert rows(table) == {"category": 40 * MIB, "context_and_processes": 400 * MIB, "unexplained": 0}

    def less(trace):
        trace.card_use(440 * MIB, [(8, 400 * MIB, b""), (7, 39 * MIB, b"")], own=1)
    assert not made(tmp_path, less)["gpu"]["processes_known"]


def test_hostile_records(tmp_path):
    def fill(trace):
        one = [(7, 340 * MIB, b"me")]
        trace.card_use(440 * MIB, one, count=1 << 31)
        trace.card_use(440 * MIB, one, count=2, text=b"")
        trace.card_use(440 * MIB, one, begin_ns=5000, end_ns=4000)
        trace.card_use(440 * MIB, one, device=77)
        trace.card_use(NOT_TOLD, one)
        trace.card_use(1 << 60, one, own=0)
        trace.card_use(440 * MIB, [(7, NOT_TOLD, b"me"), (0, NOT_TOLD, b"x" * 5000)], own=0, begin_ns=NOT_TOLD, end_ns=NOT_TOLD,
                       total=NOT_TOLD, reserved=NOT_TOLD, text=b"\x1b[31mred")
    device = made(tmp_path, fill)
    for table in (device["gpu"], device["last_gpu"]):
        rows(table)
        assert table["device_bytes"] == 440 * MIB and not table["processes_known"]
        assert {row["kind"] for row in table["not_counted"]} <= {"process"}
    text = subprocess.check_output([ANALYZER, "report", "--full", tmp_path / "made.vrt"], text=True)
    assert "unexplained" in text and "\x1b" not in text


def test_equal_answers_are_left_out(tmp_path):
    """So one holds until shortly before the next: who came later was not there at a moment between them, however near."""
    trace = TraceFile()
    trace.process([b"python", b"train.py"], b"/work", b"/usr/bin/python")
    trace.device(0, 1 << 30, b"card")
    trace.event(MEMORY_INFO, DRIVER, size=(1 << 30) - 300 * MIB, total=1 << 30)
    trace.event(ALLOC, DRIVER, address=1 << 32, size=40 * MIB)
    trace.card_use(340 * MIB, [(7, 340 * MIB, b"me")], own=0)
    for _ in range(100):
        trace.event(MARK, after_ns=1_000_000_000)
    trace.card_use(450 * MIB, [(7, 340 * MIB, b"me"), (8, 110 * MIB, b"you")], own=0, begin_ns=trace.t_ns + 50_000_000)
    trace.event(MARK, after_ns=1_000_000_000)
    trace.write(tmp_path / "a.vrt")
    for event, expected in ((90, 340), (100, 340), (101, 450), (102, 450)):
        table = read(tmp_path / "a.vrt", "--at", f"event:{event}")["gpu"]
        assert table["device_bytes"] == expected * MIB and sum(rows(table).values()) == expected * MIB, event
