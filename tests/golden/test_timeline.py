"""The timeline, computed again from the list of events: every column, on every axis."""

import json

import pytest

import trace_file
from test_cli import check_refused, run

COLUMNS = 1000
MIB = 1 << 20
SECOND = 1_000_000_000


@pytest.fixture
def trace(tmp_path):
    """Three bursts of 40 events in 10 ms each, 5 s apart; each grows, with a mark before."""
    file = trace_file.TraceFile()
    file.string(1, b"burst")
    for burst in range(3):
        file.event(trace_file.MARK, detail=1, after_ns=5 * SECOND)
        for i in range(20):
            file.event(trace_file.ALLOC, trace_file.DRIVER, (burst << 40) + (i + 1 << 30), (burst + 1) * (i % 7 + 1) * MIB,
                       after_ns=256_000)
        for i in range(1, 20):  # the first of each burst stays
            file.event(trace_file.FREE, trace_file.DRIVER, (burst << 40) + (i + 1 << 30), after_ns=256_000)
    file.event(trace_file.MARK, detail=1, after_ns=20 * SECOND)
    return file.write(tmp_path / "x.vrt")


def states(trace):
    """(time, bytes) after each event."""
    alive, result = {}, []
    for line in run("info", "--events", "--json", trace).stdout.splitlines():
        event = json.loads(line)
        if event["kind"] == "alloc":
            alive[event["address"]] = event["bytes"]
        elif event["kind"] == "free":
            del alive[event["address"]]
        result.append((event["t_ns"], sum(alive.values())))
    assert max(bytes_ for _, bytes_ in result) > 0
    return result


def timeline(trace, *options):
    result = run("timeline", "--json", *options, trace)
    assert (result.returncode, result.stderr) == (0, "")
    device, = json.loads(result.stdout)["devices"]
    assert len(device["timeline"]["t_ns"]) == COLUMNS
    return device["timeline"]


def check_columns(seen, events, first_of):
    """`first_of[c]`: index of the first event in column c or later; each column also begins with the state before."""
    for column in range(COLUMNS):
        begin, end = first_of[column], first_of[column + 1]
        inside = [bytes_ for _, bytes_ in events[max(begin - 1, 0):end]] if begin else [0, *(b for _, b in events[:end])]
        assert seen["driver_bytes"][column] == max(inside), column
        assert seen["driver_bytes"][column] == (events[seen["event"][column]][1] if max(inside) else 0), column


def test_time(trace):
    events, seen = states(trace), timeline(trace)
    assert seen["axis"] == "time" and seen["t_ns"] == sorted(seen["t_ns"]) and seen["t_ns"][0] == 0
    whole = json.loads(run("timeline", "--json", trace).stdout)["duration_ns"]
    columns = [min(t * COLUMNS // whole, COLUMNS - 1) for t, _ in events]
    check_columns(seen, events, [sum(c < column for c in columns) for column in range(COLUMNS + 1)])


def test_time_without_what_is_idle(trace):
    events, seen = states(trace), timeline(trace, "--axis", "auto")
    assert seen["axis"] == "time" and seen["t_ns"] == sorted(seen["t_ns"])
    # 30 ms of 35 s: each burst has a third of the width, less what is shown after it
    for burst in range(3):
        begin, end = events[burst * 40 + 1][0], events[burst * 40 + 39][0]
        inside = [i for i, t in enumerate(seen["t_ns"]) if begin - 20_000 <= t <= end]
        assert 250 < len(inside) < 334
        assert max(seen["driver_bytes"][inside[0]:inside[-1] + 1]) == max(b for _, b in events[burst * 40 + 1:burst * 40 + 40])
    assert max(seen["driver_bytes"]) == max(b for _, b in events)
    assert not any(1 < t / SECOND % 5 < 4.9 for t in seen["t_ns"])


def test_events(trace):
    events, seen = states(trace), timeline(trace, "--axis", "events")
    assert seen["axis"] == "events"
    columns = [i * COLUMNS // len(events) for i in range(len(events))]
    check_columns(seen, events, [sum(c < column for c in columns) for column in range(COLUMNS + 1)])


def test_a_range(trace):
    events = states(trace)
    seen = timeline(trace, "--from", "mark:burst#2", "--to", "mark:burst#3")
    assert seen["t_ns"][0] == events[40][0] and seen["t_ns"][-1] < events[80][0]
    assert max(seen["driver_bytes"]) == max(b for _, b in events[39:81])
    seen = timeline(trace, "--axis", "events", "--from", "mark:burst#2", "--to", "mark:burst#3")
    assert {seen["event"][i] for i in range(1, COLUMNS)} <= set(range(39, 81)) and seen["t_ns"][0] == events[40][0]
    seen = timeline(trace, "--from", "6s", "--to", "9s")
    assert set(seen["driver_bytes"]) == {events[39][1]}


def test_text_says_what_its_axis_is(trace):
    text = run("timeline", trace, env={"LC_ALL": "C.UTF-8"}).stdout
    title, = [line for line in text.splitlines() if line.startswith("  Time from ")]
    assert " without events is left out (╱)" in title
    zero, = [line for line in text.splitlines() if "┼" in line]
    assert zero.count("╱") == 2
    numbers, = [line for line in text.splitlines() if line.startswith("   time ")]
    assert numbers.split()[1:3] == ["5.000", "s"] and "10.01" in numbers and "15.02" in numbers
    text = run("timeline", "--axis", "time", trace, env={"LC_ALL": "C.UTF-8"}).stdout
    assert "Time from" not in text and "╱" not in text
    text = run("timeline", "--axis", "events", "--to", "mark:burst#2", trace, env={"LC_ALL": "C.UTF-8"}).stdout
    assert "\n  Events 0 to 40\n" in text and "\n  event 0 " in text


@pytest.mark.parametrize("options,part", [
    (["--axis", "steps"], "no training steps were recognised in the trace: use --axis time or --axis events"),
    (["--axis", "bytes"], "--axis takes time, events, steps or auto, not 'bytes'"),
    (["--from", "9s", "--to", "6s"], "--from is after --to: nothing lies between them"),
    (["--from", "6s", "--to", "9s", "--axis", "events"], "no event lies between --from and --to: use --axis time"),
    (["--from", "mark:other"], "no mark 'other' in the trace; it has 'burst'"), (["--to", "soon"], "'soon' is not a moment"),
    (["--from", "peak", "--to", "mark:burst"], "the peak of GPU 0 is after --to")], ids=str)
def test_wrong_axes(options, part, trace):
    for command in ("timeline", "report"):
        check_refused(run(command, *options, trace), 2, f"vramtrace {command}: ", part)
