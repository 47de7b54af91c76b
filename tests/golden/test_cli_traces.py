"""Which trace is read: the newest where none is named; a word where a newer one of its name exists; which of several times
that memory ran out."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from test_cli import PROGRAM, check_refused, run
from trace_file import ALLOC, CONTEXT_CREATE, DRIVER, FRAMEWORK, FREE, MARK, OOM, TraceFile

MIB = 1 << 20
SECOND = 1_000_000_000
BEGAN = 1_700_000_000 * SECOND
READERS = ["report", "timeline", "leaks", "oom", "frag", "steps", "info", "check", "annotate"]


def least(command):
    return [command, "--max-peak", "1GiB", "--allow-lost"] if command == "check" else [command]


def make(path, seconds=0):
    return TraceFile(started_ns=BEGAN + seconds * SECOND).write(path)


# No TRACE


@pytest.mark.parametrize("command", READERS)
def test_the_newest_is_read(command, tmp_path):
    make(tmp_path / "vramtrace.host.30.vrt", 50)
    make(tmp_path / "mine.vrt", 70)  # began last, though its file is the oldest
    make(tmp_path / "vramtrace.host.10.vrt", 60)
    make(tmp_path / "trace.of.another.name", 99)
    make(tmp_path / ".hidden.vrt", 99)
    (tmp_path / "vramtrace.notes.vrt").write_text("notes\n" * 5000)
    (tmp_path / "vramtrace.folder.vrt").mkdir()
    os.utime(tmp_path / "mine.vrt", (1, 1))
    result = run(*least(command), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    named = run(*least(command), "mine.vrt", cwd=tmp_path)
    assert result.stdout == named.stdout
    assert result.stderr == f"vramtrace {command}: reading mine.vrt, the newest trace in this folder\n" + named.stderr
    assert named.stderr == ("" if command != "check" else "vramtrace check: mine.vrt: all limits are met; no GPU memory was recorded\n")


def test_the_trace_before_its_snapshots(tmp_path):
    """They have one start; what was written last has the most."""
    for name, when in (("a.vrt", 30), ("vramtrace.4711.snapshot.vrt", 20), ("z.vrt", 10)):
        os.utime(make(tmp_path / name), (when, when))
    assert "reading a.vrt, the newest" in run("report", cwd=tmp_path).stderr


@pytest.mark.parametrize("command", READERS)
def test_the_only_one_is_read(command, tmp_path):
    make(tmp_path / "vramtrace.host.30.vrt")
    assert run(*least(command), cwd=tmp_path).stderr.startswith(f"vramtrace {command}: reading vramtrace.host.30.vrt\n")


def test_the_newest_may_be_empty(tmp_path):
    make(tmp_path / "vramtrace.host.30.vrt")
    (tmp_path / "vramtrace.host.31.vrt").touch()
    result = run("report", cwd=tmp_path)
    assert result.returncode == 3
    assert "reading vramtrace.host.31.vrt" in result.stderr and "vramtrace.host.31.vrt is empty" in result.stderr


@pytest.mark.parametrize("command", READERS)
def test_no_trace_here(command, tmp_path):
    make(tmp_path / "other.trace")
    check_refused(run(*least(command), cwd=tmp_path), 2, "no trace (*.vrt) in this folder", f"vramtrace {command} TRACE",
                  "vramtrace run COMMAND")


def test_wrong_use_comes_before_the_search(tmp_path):
    make(tmp_path / "vramtrace.host.30.vrt")
    check_refused(run("check", cwd=tmp_path), 2, "nothing to check")
    check_refused(run("info", "--stacks", cwd=tmp_path), 2, "--events")


def test_diff_of_one_is_with_the_newest(tmp_path):
    make(tmp_path / "vramtrace.host.30.vrt", 50)
    make(tmp_path / "vramtrace.host.20.vrt", 70)
    make(tmp_path / "before.vrt", 10)
    result = run("diff", "--json", "before.vrt", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stderr == "vramtrace diff: comparing with vramtrace.host.20.vrt, the newest trace in this folder\n"
    seen = json.loads(result.stdout)
    assert (seen["a"]["trace"]["file"], seen["b"]["trace"]["file"]) == ("before.vrt", "vramtrace.host.20.vrt")
    seen = json.loads(run("diff", "--json", "vramtrace.host.20.vrt", cwd=tmp_path).stdout)
    assert seen["b"]["trace"]["file"] == "vramtrace.host.30.vrt"  # not with itself
    seen = json.loads(run("diff", "--json", "before.vrt@end", cwd=tmp_path).stdout)
    assert (seen["a"]["moment"], seen["b"]["moment"]) == ("the end", "the peak")


def test_diff_of_one_without_another(tmp_path):
    make(tmp_path / "vramtrace.host.30.vrt")
    check_refused(run("diff", "vramtrace.host.30.vrt", cwd=tmp_path), 2, "no other trace (*.vrt)", "TRACE@step:2")
    check_refused(run("diff", "vramtrace.host.30.vrt@end", cwd=tmp_path), 2, "no other trace (*.vrt)")
    check_refused(run("diff", cwd=tmp_path), 2, "two traces", "newest")


# A newer trace of that name


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("folder", ["", "run/"])
def test_a_newer_one_of_that_name(command, folder, tmp_path):
    (tmp_path / "run").mkdir()
    make(tmp_path / folder / "x.vrt")
    make(tmp_path / folder / "x.1.vrt", 600)
    make(tmp_path / folder / "x.2.vrt", 90)
    result = run(*least(command), f"{folder}x.vrt", cwd=tmp_path)
    assert result.returncode == 0
    told = f"note: {folder}x.1.vrt is newer than {folder}x.vrt (recorded 10 min 0 s later)\n"
    assert result.stderr.startswith(f"vramtrace {command}: {told}")
    result = run(*least(command), f"{folder}x.2.vrt", cwd=tmp_path)
    assert "(recorded 8 min 30 s later)" in result.stderr
    assert "newer" not in run(*least(command), f"{folder}x.1.vrt", cwd=tmp_path).stderr


def test_no_word_of_what_is_read_too(tmp_path):
    make(tmp_path / "x.vrt")
    make(tmp_path / "x.1.vrt", 600)
    for arguments in (["report", "x.vrt", "x.1.vrt"], ["diff", "x.vrt", "x.1.vrt"], ["diff", "x.vrt@end", "x.1.vrt@peak"],
                      ["check", "--allow-lost", "--baseline", "x.vrt", "x.1.vrt"],
                      ["check", "--allow-lost", "--baseline", "x.1.vrt", "x.vrt"]):
        assert "newer" not in run(*arguments, cwd=tmp_path).stderr, arguments


def test_ranks_are_no_newer_runs(tmp_path):
    for rank in range(3):
        make(tmp_path / f"vramtrace.host.{rank}.vrt", rank)
    assert run("report", "vramtrace.host.0.vrt", cwd=tmp_path).stderr == ""


def test_an_older_or_odd_one_is_no_matter(tmp_path):
    make(tmp_path / "x.vrt", 100)
    make(tmp_path / "x.1.vrt", 50)
    make(tmp_path / "x.new.vrt", 500)
    make(tmp_path / "xx.1.vrt", 500)
    (tmp_path / "x.7.vrt").write_text("notes\n" * 5000)
    assert run("report", "x.vrt", cwd=tmp_path).stderr == ""


# Memory that ran out several times: at 1, 3 and 5 s, with marks before and after the second


@pytest.fixture
def refusals(tmp_path):
    trace = TraceFile()
    trace.device(0, 80 << 30, b"GPU")
    trace.string(1, b"before")
    trace.string(2, b"after")
    trace.string(3, b"late")
    trace.event(CONTEXT_CREATE, DRIVER, address=1)
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB)
    times = iter((1, 3, 5))

    def refuse(number, mark_before=None):
        trace.event(ALLOC, FRAMEWORK, address=1 << 32, size=number * MIB, detail=64 * MIB, total=number * MIB)
        trace.event(OOM, FRAMEWORK, size=number << 36, detail=64 * MIB, total=number * MIB,
                    after_ns=next(times) * SECOND - (trace.t_ns - 1000))
        trace.event(FREE, FRAMEWORK, address=1 << 32, size=number * MIB, detail=64 * MIB)

    refuse(1)
    trace.event(MARK, detail=1, after_ns=SECOND)
    refuse(2)
    trace.event(MARK, detail=2)
    refuse(3)
    trace.event(MARK, detail=3)
    return trace.write(tmp_path / "x.vrt")


@pytest.mark.parametrize("at,number", [(None, 3), ("oom", 3), ("oom#1", 1), ("oom#2", 2), ("oom#3", 3), ("mark:before", 2),
                                       ("mark:after", 3), ("1s", 1), ("1.2s", 1), ("2.5s", 2), ("3s", 2), ("3900ms", 2),
                                       ("4.5s", 3), ("0s", 1), ("step:0", 3)])
def test_which_time_memory_ran_out(at, number, refusals):
    arguments = ["oom", refusals, *(["--at", at] if at else [])]
    seen = json.loads(run(*arguments, "--json").stdout)
    key = "last" if number == 3 else "chosen"
    assert ("last" in seen) != ("chosen" in seen)
    assert seen[key]["number"] == number
    assert seen[key]["at"]["block_bytes"] == number * MIB
    assert seen[key]["gpu"]["categories"]["cached"] == (64 - number) * MIB
    assert len(seen["out_of_memory"]) == 3
    text = " ".join(run(*arguments, "--full").stdout.split())
    assert f"{number * 64} GiB requested" in text
    assert ("this was the last, oom#3" if number == 3 else f"this was oom#{number} ") in text
    assert all(f"oom#{i}" in text for i in (1, 2, 3))


MANY, LISTED = 75_000, 1000
# In a process of its own: the kernel counts what a child's parent held when it was started.
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.fixture(scope="module")
def many_refusals(tmp_path_factory):
    """A file of 30 KB."""
    trace = TraceFile()
    trace.device(0, 80 << 30, b"GPU")
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB)
    for _ in range(MANY):
        trace.event(OOM, FRAMEWORK, size=MIB, after_ns=1000)
    return trace.write(tmp_path_factory.mktemp("many") / "x.vrt")


@pytest.mark.parametrize("command", ["report --json", "oom --json", "html -o {}", "oom --full", "list --json"])
def test_many_failed_requests_take_little_memory(command, many_refusals, tmp_path):
    command = [part.format(tmp_path / "x.html") for part in command.split()]
    done = subprocess.run([sys.executable, "-c", MEASURE, PROGRAM, *command, many_refusals], text=True, stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) < 200 << 10


@pytest.mark.parametrize("at,first", [(None, MANY - LISTED), ("oom#70000", 70000 - LISTED), ("oom#2", 0)])
def test_documents_list_some_and_count_all(at, first, many_refusals):
    for command in ("report", "oom"):
        told = json.loads(run(command, "--json", *(["--at", at] if at else []), many_refusals).stdout)
        assert told["out_of_memory_count"] == MANY
        assert [one["number"] for one in told["out_of_memory"]] == list(range(first + 1, first + LISTED + 1))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_report_of_that_time(number, refusals):
    seen = json.loads(run("report", "--json", "--at", f"oom#{number}", refusals).stdout)
    assert seen["devices"][0]["at"]["block_bytes"] == number * MIB
    assert f"{number * 64} GiB requested" in " ".join(run("report", "--at", f"oom#{number}", refusals).stdout.split())


def test_moment_of_an_event(refusals):
    events = [json.loads(line) for line in run("info", "--events", "--json", refusals).stdout.splitlines()]
    held = 0
    for event in events:
        if event["layer"] == "framework" and event["kind"] in ("alloc", "free"):
            held += event["bytes"] if event["kind"] == "alloc" else -event["bytes"]
        seen = json.loads(run("report", "--json", "--at", f"event:{event['index']}", refusals).stdout)["devices"][0]["at"]
        assert (seen["event"], seen["block_bytes"], seen["t_ns"]) == (event["index"], held, event["t_ns"])
    for number, event in enumerate((event for event in events if event["kind"] == "oom"), 1):
        shown = json.loads(run("oom", "--json", "--at", f"event:{event['index']}", refusals).stdout)
        assert shown["last" if number == 3 else "chosen"]["number"] == number
    assert "at the moment after that event, " in " ".join(run("report", "--at", "event:2", refusals).stdout.split())


@pytest.mark.parametrize("at,parts", [("event:14", ["no event 14", "has 14", "from 0"]), ("event:99999999999999999999", ["no event"]),
                                      ("event:-1", ["event:NUMBER"]), ("event:", ["event:NUMBER"]), ("event:1x", ["event:NUMBER"])])
def test_no_such_event(at, parts, refusals):
    check_refused(run("report", "--at", at, refusals), 2, "x.vrt", *parts)


@pytest.mark.parametrize("at,parts", [("oom#4", ["3 out-of-memory errors", "no oom#4"]), ("oom#0", ["no oom#0"]), ("oom#x", ["oom#NUMBER"]),
                                      ("mark:late", ["after mark:late", "has 3 others"]), ("mark:x", ["no mark 'x'", "'before'"]),
                                      ("peak", ["vramtrace report --at peak"]), ("end", ["vramtrace report --at end"]),
                                      ("step:9", ["no step 9"]), ("yesterday", ["mark:NAME"]), ("9h", ["after the end"])])
def test_no_such_time(at, parts, refusals):
    check_refused(run("oom", "--at", at, refusals), 2, "x.vrt", *parts)


def test_no_time_at_all(tmp_path):
    check_refused(run("oom", "--at", "oom#2", make(tmp_path / "x.vrt")), 2, "no out-of-memory event")
    check_refused(run("oom", "--at", "1s", tmp_path / "x.vrt"), 2, "no out-of-memory event")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's file")
def test_anothers_trace_is_not_the_newest(tmp_path):
    """Anybody may plant one in a folder like /tmp: the newest is ours, or the folder owner's."""
    for name, started, owner in (("own.vrt", 1, os.geteuid()), ("planted.vrt", 2, 1234)):
        TraceFile(started_ns=started * 10**18).write(tmp_path / name)
        os.chown(tmp_path / name, owner, -1)
    assert "reading own.vrt" in run("report", cwd=tmp_path).stderr
    os.chown(tmp_path, 1234, -1)
    assert "reading planted.vrt" in run("report", cwd=tmp_path).stderr
    os.chown(tmp_path, os.geteuid(), -1)
    (tmp_path / "own.vrt").unlink()
    check_refused(run("report", cwd=tmp_path), 2, "other users'", "name one")


@pytest.mark.parametrize("name", ["a b.vrt", "it's; touch x.vrt", "$(id).vrt", "plain-1.vrt"])
def test_a_shown_command_can_be_pasted(name, tmp_path):
    trace = TraceFile()
    trace.event(ALLOC, DRIVER, address=1 << 32, size=1 << 20)
    path = trace.write(tmp_path / name)
    text = " ".join(run("report", path, "--width", "1000").stdout.splitlines()[-1].split())
    assert text.startswith("More: vramtrace report --full · ")
    words = shlex.split(text)
    assert words[-1] == str(path) and (" " in name or "$" in name) == (f"'{tmp_path}" in text)
