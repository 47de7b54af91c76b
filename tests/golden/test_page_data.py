"""The data of `vramtrace html`, decoded by docs/page.md alone, against the events of the trace and the report's instants."""
import json
import os
import pathlib
import re
import subprocess

import pytest

import harness
import page_data
from test_cli import PROGRAM, check_refused, run, write_trace
from test_cli_text import HOSTILE, hostile_trace
from trace_file import ALLOC, DRIVER, FRAMEWORK, FREE, MARK, OOM, TraceFile

MIB = 1 << 20
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
    """(alloc event, free event or None, bytes, address / 256) of every framework block that outlived its event."""
    alive, lives = {}, []
    for event in events:
        if event["layer"] != "framework" or event["kind"] not in ("alloc", "free"):
            continue
        key = (event["device"], event["address"])
        if event["kind"] == "alloc":
            alive[key] = event
        elif key in alive:
            made = alive.pop(key)
            lives.append((made["index"], event["index"], made["bytes"], int(made["address"], 16) // 256))
    lives += [(made["index"], None, made["bytes"], int(made["address"], 16) // 256) for made in alive.values()]
    return sorted(lives)


def check_allocations(trace, events):
    """Each allocation against the events that made and ended it; the framework's blocks both ways."""
    assert trace.head["allocations"] == len(trace.allocations)
    blocks = []
    for allocation in trace.allocations:
        klass = trace.names["classes"][allocation["klass"]]
        kind = trace.head["kinds"][klass[1]]
        made = events[trace.events[allocation["begin"]]]
        end = None if allocation["end"] is None else trace.events[allocation["end"]]
        assert trace.frames(klass[5]) == [(frame["function"], frame["file"], frame["line"]) for frame in made["stack"]]
        if made["kind"] == "alloc" and kind in OF_ONE_CALL:
            assert allocation["address"] // 256 == int(made["address"], 16) // 256
            assert allocation["bytes"] == made["bytes"]
        if kind == "block":
            blocks.append((made["index"], end, allocation["bytes"], allocation["address"] // 256))
    assert sorted(blocks) == lives_of_blocks(events)


def check_names(trace):
    """Every number that refers to something has it; the lists of words are what their numbers mean."""
    names = trace.names
    strings = len(names["strings"])
    assert names["strings"][0] == "" and names["stacks"][0] == [] and names["places"][0][:4] == [0, 0, 0, 0]
    assert len(set(names["strings"])) == strings
    for device, kind, category, evidence, phase, stack, forward, place, module, module_class, operator, rule, *sums, tensors, \
            label in names["classes"]:
        assert -1 <= device < 32 and kind < len(trace.head["kinds"]) and category < len(trace.head["categories"])
        assert evidence < len(trace.head["evidence"]) and phase < len(trace.head["phases"])
        assert max(stack, forward) < len(names["stacks"]) and place < len(names["places"]) and rule < len(names["rules"])
        assert max(module, module_class, operator, label) < strings
        assert sums[0] in (0, 1) and sums[1] in (-1, 0, 1) and sums[2] in (0, 1) and len(sums) == 3
        assert all(tensor < len(names["tensors"]) for tensor in tensors)
    for name, file, line, function, frame in names["places"][1:]:
        assert max(name, file, function) < strings and -1 <= frame < len(names["frames"])
        if frame >= 0:
            assert names["frames"][frame][1:4] == [function, file, line] and names["frames"][frame][5] == name
    assert {klass for klass in range(len(names["classes"]))} == {a["klass"] for a in trace.allocations}


def check_page(path, folder, instants=20):
    events = events_of(path)
    head, (trace,) = make_page(folder, path)
    assert head["format"] == "vramtrace.page/1" and head["diff"] is None
    assert trace.head["events"] == len(events)
    check_changes(trace, events)
    check_allocations(trace, events)
    check_names(trace)
    check_instants(path, trace, instants)
    for name, command in (("report", ["report"]), ("leaks", ["leaks"]), ("oom", ["oom"])):
        if name in trace.head["blobs"]:
            check_document(trace.document(name), json.loads(run(*command, "--json", path).stdout))
    assert ("oom" in trace.head["blobs"]) == bool(trace.head["refusals"])
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
    assert {one.names["classes"][a["klass"]][0] for a in one.allocations} <= {1, -1}
    check_instants(trace, both)


def test_a_framework(tmp_path):
    check_page(record(tmp_path, ["late_torch", module("torch_cpu"), module("c10"), module("tool_c10")]), tmp_path)
