"""Exports of what is alive, and of the timeline: a made trace with hostile names, of which the test itself knows every byte.

Each format is read by something that is not ours: JSON by Python and a schema check, pprof by Go's, Perfetto by its own
definitions and its trace processor. Without $VRAMTRACE_READERS (tests/setup.sh setup_readers) the last ones are skipped.
"""
import collections
import gzip
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "readers"))
from exports import READERS, pprof_samples, read_perfetto  # noqa: E402
from test_cli import PROGRAM, check_refused, run  # noqa: E402
from test_cli_text import UNSAFE, hostile_trace  # noqa: E402
from trace_file import ALLOC, CONTEXT_CREATE, DRIVER, FRAMEWORK, FREE, MARK, OOM, TraceFile  # noqa: E402

FORMATS = ["perfetto", "pprof", "speedscope", "folded"]
MIB = 1 << 20
DELTA = 14  # of the memory in use on the card, across a call
CONTEXT, SEGMENT = 300 * MIB, 64 * MIB
NAMES = ["plain", "</script><!--", "a;b\nc 12", "é人🙂", "x" * 10000, 'q"\\u0000%s', "\u202eturned", "=1+1"]
FOLDED = str.maketrans({";": ",", "\n": " ", "\u202e": "\ufffd"})


class Made:
    """A trace, and what is alive on each device: (functions, outermost first) → bytes."""

    def __init__(self):
        self.trace = TraceFile()
        self.alive = [collections.Counter(), collections.Counter()]
        self.blocks = {}
        self.trace.process([b"/usr/bin/python", b"train.py"], b"/home/user", b"/usr/bin/python")
        for device in range(2):
            self.trace.device(device, 80 << 30, b"GPU")
        for number, name in enumerate(NAMES, 1):
            self.trace.code(number, b"/home/user/file%d.py" % number, name.encode())
        for number in range(1, len(NAMES) + 1):  # each calls the next one
            self.trace.stack(number, python=[(code, 0, 0) for code in range(number, 0, -1)])
        for number, text in enumerate(["warm", NAMES[1]], 1):
            self.trace.string(number, text.encode())
        for device in range(2):
            self.trace.event(CONTEXT_CREATE, DRIVER, address=1 + device, device=device)
            self.trace.event(DELTA, DRIVER, size=CONTEXT, device=device)
            self.trace.event(ALLOC, DRIVER, address=self.base(device), size=SEGMENT, device=device, stack=1)

    @staticmethod
    def base(device):
        return (device + 1) << 40

    def alloc(self, device, offset, size, stack):
        self.blocks[device, offset] = size, stack
        self.alive[device][tuple(NAMES[:stack])] += size
        self.change(ALLOC, device, offset, size, stack)

    def free(self, device, offset):
        size, stack = self.blocks.pop((device, offset))
        self.alive[device][tuple(NAMES[:stack])] -= size
        self.change(FREE, device, offset, size, 0)

    def change(self, kind, device, offset, size, stack):
        total = sum(size for (index, _), (size, _) in self.blocks.items() if index == device)
        self.trace.event(kind, FRAMEWORK, address=self.base(device) + offset, size=size, detail=SEGMENT, total=total,
                         stack=stack, device=device)

    def block_bytes(self, device):
        return sum(self.alive[device].values())


def make(path):
    """The trace, what was alive at the mark "warm" and at its end."""
    made = Made()
    for number in range(1, len(NAMES) + 1):
        made.alloc(0, number * MIB, number * 512, number)
        made.alloc(0, (20 + number) * MIB, 2048, number)
    made.alloc(1, 0, MIB, 3)
    made.alloc(1, 8 * MIB, 3 * MIB, 8)
    warm = [collections.Counter(device) for device in made.alive]
    made.trace.event(MARK, detail=1)
    made.free(0, 8 * MIB)
    made.free(1, 8 * MIB)
    made.alloc(0, 40 * MIB, 512, 5)
    made.trace.event(MARK, detail=2)
    made.trace.event(OOM, FRAMEWORK, size=1 << 40, detail=SEGMENT, total=made.block_bytes(0), stack=3)
    made.trace.write(path)
    return path, {"mark:warm": warm, "end": [+device for device in made.alive]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("made") / "x.vrt")


def export(trace, form, out, *options):
    result = run("export", "--format", form, *options, "-o", out, trace)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.startswith("vramtrace export: wrote ") and len(result.stderr.splitlines()) == 1
    return pathlib.Path(out)


def state_at(trace, moment):
    """By device the state there, as the report has it."""
    devices = json.loads(run("report", "--json", "--at", moment, trace).stdout)["devices"]
    return {device["index"]: device["at"] for device in devices}


# What is alive at a moment


@pytest.mark.parametrize("moment", ["mark:warm", "end"])
def test_folded(moment, made, tmp_path):
    trace, truth = made
    text = export(trace, "folded", tmp_path / "x", "--at", moment).read_bytes().decode()
    assert not UNSAFE & set(map(ord, text))
    seen = [collections.Counter(), collections.Counter()]
    rest = collections.Counter()
    for line in text.removesuffix("\n").split("\n"):
        frames, size = line.rsplit(" ", 1)
        device, category, *stack = frames.split(";")
        number = int(device.removeprefix("GPU "))
        if stack:
            seen[number][tuple(frame.partition(" ")[2] for frame in stack)] += int(size)
        else:
            rest[device, category] += int(size)
    for number in range(2):
        cut = lambda name: name.translate(FOLDED)[:400]  # noqa: E731  names are cut in reports
        expected = {tuple(map(cut, stack)): size for stack, size in truth[moment][number].items()}
        assert {tuple(map(cut, stack)): size for stack, size in seen[number].items()} == expected
        assert rest[f"GPU {number}", "context"] == CONTEXT
        assert rest[f"GPU {number}", "cached"] == SEGMENT - sum(expected.values())


def test_folded_of_one_device_has_no_device(made, tmp_path):
    trace, truth = made
    lines = export(trace, "folded", tmp_path / "x", "--at", "end", "--device", "1").read_text().splitlines()
    assert {line.split(";")[0].split(" ")[0] for line in lines} == {"other", "context", "cached"}
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == CONTEXT + SEGMENT
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines if ";" in line) == sum(truth["end"][1].values())


# What speedscope's description of its format says: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources
SPEEDSCOPE = {
    "type": "object", "required": ["$schema", "shared", "profiles"], "additionalProperties": False,
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "exporter": {"type": "string"}, "name": {"type": "string"}, "activeProfileIndex": {"type": "integer", "minimum": 0},
        "shared": {"type": "object", "required": ["frames"], "additionalProperties": False, "properties": {
            "frames": {"type": "array", "items": {
                "type": "object", "required": ["name"], "additionalProperties": False,
                "properties": {"name": {"type": "string"}, "file": {"type": "string"}, "line": {"type": "integer"},
                               "col": {"type": "integer"}}}}}},
        "profiles": {"type": "array", "items": {
            "type": "object", "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
            "additionalProperties": False,
            "properties": {
                "type": {"const": "sampled"}, "name": {"type": "string"},
                "unit": {"enum": ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]},
                "startValue": {"type": "integer"}, "endValue": {"type": "integer"},
                "samples": {"type": "array", "items": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}},
                "weights": {"type": "array", "items": {"type": "integer", "minimum": 0}}}}}}}


@pytest.mark.parametrize("moment", ["mark:warm", "end"])
def test_speedscope(moment, made, tmp_path):
    trace, truth = made
    seen = json.loads(export(trace, "speedscope", tmp_path / "x", "--at", moment).read_text())
    frames = seen["shared"]["frames"]
    states = state_at(trace, moment)
    for profile in seen["profiles"]:
        device, _, what = profile["name"].partition(": ")
        number = int(device.removeprefix("GPU "))
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "bytes", 0)
        assert len(profile["samples"]) == len(profile["weights"])
        assert max(map(max, profile["samples"])) < len(frames)
        categories = states[number]["categories"]
        assert profile["endValue"] == sum(profile["weights"]) == (sum(categories.values()) if what == "all" else categories[what])
        if what != "all":
            continue
        stacks, of = collections.Counter(), collections.Counter()
        for sample, size in zip(profile["samples"], profile["weights"]):
            category, *stack = (frames[i]["name"] for i in sample)
            of[category] += size
            if stack:
                stacks[tuple(stack)] += size
        assert stacks == truth[moment][number]
        assert of == {name: size for name, size in categories.items() if size}
    assert {profile["name"] for profile in seen["profiles"]} == {
        f"GPU {number}: {what}" for number, state in states.items()
        for what in ("all", *(name for name, size in state["categories"].items() if size))}
    for frame in frames:
        if frame.get("file"):
            assert frame["file"] == f"/home/user/file{NAMES.index(frame['name']) + 1}.py"
            assert "line" not in frame  # this trace has none


def test_speedscope_schema(made, tmp_path):
    if not READERS:
        pytest.skip("VRAMTRACE_READERS is not set: no Python with jsonschema")
    out = export(made[0], "speedscope", tmp_path / "x")
    schema = tmp_path / "schema"
    schema.write_text(json.dumps(SPEEDSCOPE))
    check = "import json, sys, jsonschema; jsonschema.validate(*(json.load(open(name)) for name in sys.argv[1:]))"
    subprocess.run([READERS, "-c", check, out, schema], check=True, timeout=60)


@pytest.mark.parametrize("moment", ["mark:warm", "end"])
def test_pprof(moment, made, tmp_path):
    trace, truth = made
    path = export(trace, "pprof", tmp_path / "x.pb.gz", "--at", moment)
    for name in NAMES:  # each text once
        if name != "\u202eturned":
            assert gzip.decompress(path.read_bytes()).count(name.encode()) >= 1
    seen = [collections.Counter(), collections.Counter()]
    rest = collections.Counter()
    blocks = 0
    for objects, size, labels, frames in pprof_samples(path):
        functions = tuple(function for function, _, _ in frames)
        number = int(labels["device"].removeprefix("GPU "))
        if labels["category"] in ("context", "cached"):
            assert functions == (f"[{labels['category']}]",)
            rest[number, labels["category"]] += size
        else:
            assert labels["kind"] == "block"
            seen[number][functions] += size
            blocks += objects
    for number in range(2):
        assert seen[number] == truth[moment][number]
        assert rest[number, "context"] == CONTEXT
        assert rest[number, "cached"] == SEGMENT - sum(truth[moment][number].values())
    assert blocks == (18 if moment == "mark:warm" else 17)


# Perfetto


def test_perfetto_definitions(made, tmp_path):
    trace, _ = made
    seen = read_perfetto("packets", export(trace, "perfetto", tmp_path / "x"))
    assert seen["unknown_fields"] == 0
    assert seen["kinds"]["clock_snapshot"] == seen["kinds"]["profile_packet"] == 1
    expected = collections.Counter()
    for number in range(1, len(NAMES) + 1):
        expected[tuple(NAMES[:number])] += number * 512 + 2048
    for number, size in ((3, MIB), (8, 3 * MIB), (5, 512), (3, 1 << 40)):  # the last one is what was refused
        expected[tuple(NAMES[:number])] += size
    for _ in range(2):
        expected[tuple(NAMES[:1])] += SEGMENT
    stacks = collections.Counter()
    for size, functions in seen["events"]:
        stacks[tuple(functions)] += size
    assert stacks == expected


IMPORT_ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
COUNTERS = """select d.name device, t.name, c.ts, c.value from counter c join track t on c.track_id = t.id
              join track d on t.parent_id = d.id order by c.id"""
PROFILE = """with recursive chain(id, top) as (
    select id, id from stack_profile_callsite union all
    select s.parent_id, chain.top from chain join stack_profile_callsite s on s.id = chain.id where s.parent_id is not null)
    select a.heap_name, f.name category, sum(a.size) size, a.ts from heap_profile_allocation a join chain on chain.top = a.callsite_id
    join stack_profile_callsite c on c.id = chain.id and c.parent_id is null join stack_profile_frame f on f.id = c.frame_id
    group by 1, 2"""
EVENTS = "select s.name, s.ts, s.dur, s.depth, t.name track from slice s join track t on s.track_id = t.id order by s.ts, s.id"
ALIVE = """select d.name device, sum(extract_arg(s.arg_set_id, 'debug.bytes')) size from slice s
    join track t on s.track_id = t.id join track d on t.parent_id = d.id
    where t.name = 'allocations' and extract_arg(s.arg_set_id, 'debug.kind') = 'block'
    and extract_arg(s.arg_set_id, 'debug.lifetime_ns') is null group by 1"""


def test_perfetto_queries(made, tmp_path):
    trace, truth = made
    out = export(trace, "perfetto", tmp_path / "x", "--at", "end")
    errors, counters, profile, events, alive = read_perfetto("query", out, IMPORT_ERRORS, COUNTERS, PROFILE, EVENTS, ALIVE)
    # trace processors before Perfetto 53 do not know call stacks of events
    assert {error["name"] for error in errors} <= {"unknown_extension_fields"}
    last = {(row["device"], row["name"]): row["value"] for row in counters}
    states = state_at(trace, "end")
    for number, state in states.items():
        device = f"GPU {number} GPU"
        assert sum(truth["end"][number].values()) == state["block_bytes"] == last[device, "in use"]
        assert last[device, "driver"] == state["driver_bytes"] == CONTEXT + SEGMENT
        for name, size in state["categories"].items():
            assert last.get((device, name), 0) == size
        assert {row["category"]: row["size"] for row in profile if row["heap_name"] == f"GPU {number}"} == {
            name: size for name, size in state["categories"].items() if size}
    assert {row["device"]: row["size"] for row in alive} == {
        f"GPU {number} GPU": sum(truth["end"][number].values()) for number in range(2)}
    began = 1_700_000_000_000_000_000
    told = json.loads(run("report", "--json", trace).stdout)
    assert [(row["name"], row["ts"] - began) for row in events if row["track"] == "marks"] == [
        (mark["name"], mark["t_ns"]) for mark in told["marks"]]
    assert [row["name"] for row in events if row["track"] == "marks"] == ["warm", NAMES[1]]
    assert len([row for row in events if row["track"] == "out of memory"]) == 1
    assert {row["ts"] - began for row in profile} == {state["t_ns"] for state in states.values()}


def test_perfetto_traces_one_behind_the_other(made, tmp_path):
    """Those of a job's processes: cat."""
    both = tmp_path / "both"
    other = TraceFile(started_ns=1_700_000_000_100_000_000)
    other.device(0, 80 << 30, b"other")
    other.event(ALLOC, FRAMEWORK, address=1 << 40, size=MIB, detail=MIB, total=MIB)
    other = export(other.write(tmp_path / "y.vrt"), "perfetto", tmp_path / "y")
    both.write_bytes(export(made[0], "perfetto", tmp_path / "x").read_bytes() + other.read_bytes())
    errors, tracks = read_perfetto("query", both, IMPORT_ERRORS, "select distinct name from track where name like 'GPU%' order by 1")
    assert {error["name"] for error in errors} <= {"unknown_extension_fields"}
    assert [row["name"] for row in tracks] == ["GPU 0 GPU", "GPU 0 other", "GPU 1 GPU"]


def test_a_free_that_seems_to_be_before_its_allocation(tmp_path):
    trace = TraceFile()
    trace.event(ALLOC, DRIVER, address=1 << 40, size=MIB)
    trace.event(FREE, DRIVER, address=1 << 40, size=MIB, after_ns=-500_000)
    out = export(trace.write(tmp_path / "x.vrt"), "perfetto", tmp_path / "out")
    assert read_perfetto("query", out, "select int_value n from args where key = 'debug.lifetime_ns'")[0] == [{"n": 0}]


# Whatever a trace holds


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_trace(form, tmp_path):
    trace = hostile_trace(os.fsencode(tmp_path) + b"/x.vrt")
    out = export(os.fsdecode(trace), form, tmp_path / "out")
    if form == "folded":
        assert not UNSAFE & set(map(ord, out.read_text()))
    elif form == "speedscope":
        assert not UNSAFE & set(map(ord, out.read_text())) and json.loads(out.read_text())["profiles"]
    elif form == "pprof":
        assert sum(size for _, size, _, _ in pprof_samples(out)) == 64 * MIB
    else:
        assert read_perfetto("packets", out)["unknown_fields"] == 0
        assert read_perfetto("query", out, "select sum(size) n from heap_profile_allocation")[0][0]["n"] == 64 * MIB


@pytest.mark.parametrize("form", FORMATS)
def test_trace_without_memory(form, tmp_path):
    out = export(TraceFile().write(tmp_path / "x.vrt"), form, tmp_path / "out")
    if form == "speedscope":
        assert json.loads(out.read_text())["profiles"] == []
    elif form == "folded":
        assert out.read_text() == ""
    elif form == "perfetto":
        assert read_perfetto("packets", out)["unknown_fields"] == 0
    else:
        assert gzip.decompress(out.read_bytes())


# The command


def test_many_traces_into_a_folder(made, tmp_path):
    trace, _ = made
    other = shutil.copy(trace, tmp_path / "y.vrt")
    (tmp_path / "out").mkdir()
    assert run("export", "--format", "folded", "-o", tmp_path / "out", trace, other).returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["x.folded", "y.folded"]
    assert run("export", "--format", "folded", trace).stdout == (tmp_path / "out" / "x.folded").read_text()
    assert (tmp_path / "out" / "y.folded").read_text() == (tmp_path / "out" / "x.folded").read_text()


def test_an_unreadable_trace_among_others(made, tmp_path):
    (tmp_path / "y.vrt").write_text("notes")
    (tmp_path / "out").mkdir()
    result = run("export", "--format", "pprof", "-o", tmp_path / "out", tmp_path / "y.vrt", made[0])
    assert result.returncode == 3 and "y.vrt" in result.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x.pb.gz"]


def test_wrong_use(made, tmp_path):
    trace, _ = made
    check_refused(run("export", trace), 2, "--format is required", "perfetto", "pprof", "speedscope", "folded")
    check_refused(run("export", "--format", "perfeto", trace), 2, "did you mean perfetto?")
    check_refused(run("export", "--format", "zip", trace), 2, "--format takes perfetto", "folded")
    check_refused(run("export", "--format", "folded", trace, trace), 2, "-o FOLDER")
    check_refused(run("export", "--format", "folded", "-o", tmp_path, trace, trace), 2, "would both become", "x.folded")
    check_refused(run("export", "--format", "folded", "--at", "mark:none", trace), 2, "mark")
    check_refused(run("export", "--format", "folded", "-o", trace, trace), 2, "would overwrite a trace")


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_leaves_no_part(form, made):
    result = subprocess.run([PROGRAM.resolve(), "export", "--format", form, "-o", "/dev/full", made[0]], capture_output=True, text=True)
    assert result.returncode == 4 and "/dev/full" in result.stderr


@pytest.mark.parametrize("form", FORMATS + ["memory-viz"])
@pytest.mark.parametrize("limit", [100, 4096])
def test_a_full_disk_says_why(form, limit, made, tmp_path):
    """A limit on the size of files stands for a full disk; the write that fails may be any."""
    result = subprocess.run([PROGRAM.resolve(), "export", "--format", form, "-o", "out", made[0]], cwd=tmp_path,
                            capture_output=True, text=True,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    if result.returncode:
        assert (result.returncode, os.listdir(tmp_path)) == (4, [])
        assert result.stderr == "vramtrace export: cannot write out: File too large\n"
    else:
        assert os.path.getsize(tmp_path / "out") <= limit == 4096


@pytest.mark.parametrize("form", FORMATS[:2])
def test_binary_is_not_for_a_terminal(form, made):
    leader, follower = os.openpty()
    result = subprocess.run([PROGRAM.resolve(), "export", "--format", form, made[0]], stdout=follower, stderr=subprocess.PIPE, text=True)
    os.close(leader)
    os.close(follower)
    assert result.returncode == 2 and "refusing to write binary data to the terminal" in result.stderr
