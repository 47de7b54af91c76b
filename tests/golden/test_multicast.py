"""Multicast objects are windows without memory: what is bound to them lives, and counts where it was made. The truth is
the stand-in driver's own books, after each call."""
import json
import subprocess

import pytest

from harness import ANALYZER, run

MIB = 1 << 20
EVENTS = ("multicast_create", "bind", "bind_address", "unbind")


def play(tmp_path, recorder, *arguments, **extra):
    done = run(tmp_path, ["multicast_calls", *arguments], recorder, VRAMTRACE_STANDIN_DEVICES=2,
               VRAMTRACE_STANDIN_CONTEXT=0, **extra)
    assert done.returncode == 0, done.output + done.error
    return done


def books(done):
    """What the driver said at each mark: (device 0, device 1, handles)."""
    return {words[1]: tuple(map(int, words[2:])) for words in map(str.split, done.output.splitlines())
            if words[0] == "bytes"}


def told(trace, mark):
    report = json.loads(subprocess.check_output([ANALYZER, "report", "--at", f"mark:{mark}", "--json", trace]))
    devices = {device["index"]: device["at"]["driver_bytes"] for device in report["devices"]}
    return devices.get(0, 0), devices.get(1, 0)


def check_trace(trace):
    subprocess.run([ANALYZER, "info", "--verify", trace], check=True)
    info = json.loads(subprocess.check_output([ANALYZER, "info", "--json", trace]))
    assert info["disagreements"] == dict.fromkeys(info["disagreements"], 0)


def test_events(tmp_path, recorder):
    done = play(tmp_path, recorder)
    objects = [event.address for event in done.of("multicast_create")]
    assert [event.bytes for event in done.of("multicast_create")] == [8 * MIB, 4 * MIB, 4 * MIB, 2 * MIB, 4 * MIB]
    made = [event.address for event in done.of("handle_create") if not event.flags]
    seen = [(e.kind, e.function, objects.index(e.address), e.bytes, e.total, e.device) for e in done.of(*EVENTS[1:])]
    assert seen[:6] == [
        ("bind", "cuMulticastBindMem", 0, 4 * MIB, 4 * MIB, -1), ("bind", "cuMulticastBindMem", 0, 4 * MIB, 4 * MIB, -1),
        ("bind_address", "cuMulticastBindAddr_v2", 0, 4 * MIB, 0, 1),
        ("unbind", "cuMulticastUnbind", 0, 4 * MIB, 4 * MIB, 1), ("unbind", "cuMulticastUnbind", 0, 4 * MIB, 0, 1),
        ("unbind", "cuMulticastUnbind", 0, 4 * MIB, 4 * MIB, 0)]
    assert [event.detail for event in done.of("bind")] == [made[i] for i in (0, 1, 2, 3, 3, 4)]
    assert [event.device for event in done.of("bind")] == [-1, -1, 0, 1, -1, -1]
    assert all(event.stack == 1 for event in done.of(*EVENTS))


def test_what_a_team_costs(tmp_path, recorder):
    """A device's driver may take memory for itself when it joins; on the current device that is seen."""
    done = play(tmp_path, recorder, VRAMTRACE_STANDIN_MULTICAST="6MiB")
    said = [line.split() for line in done.output.splitlines() if line.startswith("added")]
    assert [int(words[2]) for words in said[:3]] == [6 * MIB, 6 * MIB, 0]
    assert [(e.function, e.device, e.bytes) for e in done.of("delta")] == [("cuMulticastAddDevice", 0, 6 * MIB)]


def test_bytes_at_every_moment(tmp_path):
    wanted = books(play(tmp_path, "trace"))
    assert wanted["released"][:2] == (4 * MIB, 8 * MIB) and wanted["import_gone"] == (0, 0, 0)
    for mark, (*device_bytes, _) in wanted.items():
        assert told(tmp_path / "recorded", mark) == tuple(device_bytes), mark
    check_trace(tmp_path / "recorded")


@pytest.mark.parametrize("seed", range(3))
def test_calls_in_any_order(tmp_path, seed):
    """Many of them refused by the driver: their corrections are right too."""
    wanted = books(play(tmp_path, "trace", str(seed)))
    assert len(set(wanted.values())) > 15
    for mark, (*device_bytes, _) in wanted.items():
        assert told(tmp_path / "recorded", mark) == tuple(device_bytes), mark
    check_trace(tmp_path / "recorded")
