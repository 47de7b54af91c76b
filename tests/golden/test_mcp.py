"""vramtrace mcp: every tool through the MCP SDK's own client, what may not be read, and the protocol by hand."""
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import threading
import time

import pytest

from test_annotate_cli import code, write
from test_cli import PROGRAM, check_refused, run
from test_cli_text import HOSTILE, UNSAFE, hostile_trace
from test_jobs import LAUNCH
from trace_file import ALLOC, DRIVER, FRAMEWORK, FREE, MARK, OOM, TraceFile

READERS = os.environ.get("VRAMTRACE_READERS")
CLIENT = pathlib.Path(__file__).with_name("mcp_client.py")
MIB = 1 << 20
TOOLS = ["traces", "summary", "report", "leaks", "oom", "frag", "diff", "annotate", "explain", "job", "sql"]
SERVER = {**os.environ, "VRAMTRACE_PYTHON": READERS or ""}  # the server's environment
with_sdk = pytest.mark.skipif(not READERS, reason="VRAMTRACE_READERS is not set: no MCP client")


def make(path, megabytes=(1, 2, 4, 8), seconds=0, state=1):
    """Blocks of files f0.py, f1.py, … in one segment; a mark; the second is freed; out of memory."""
    trace = TraceFile(started_ns=(1_700_000_000 + seconds) * 1_000_000_000)
    trace.process([b"python", b"f0.py"], os.fsencode(path.parent), b"/bin/python")
    trace.device(0, 80 << 30, b"Card")
    trace.string(1, b"here")
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB)
    for i, size in enumerate(megabytes):
        code(trace, i + 1, os.fsencode(path.parent / f"f{i}.py"))
        trace.stack(i + 1, python=[(i + 1, 0, 0)])
        trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + 8 * MIB * i, size=size * MIB, detail=64 * MIB, stack=i + 1)
    trace.event(MARK, detail=1)
    trace.event(FREE, FRAMEWORK, address=(1 << 32) + 8 * MIB, size=megabytes[1] * MIB, detail=64 * MIB)
    trace.event(OOM, FRAMEWORK, size=1 << 40, detail=64 * MIB, stack=1)
    return trace.write(path, state)


def ask(arguments, *calls, check=True):
    """The answers of one server, the first being that of initialize."""
    result = subprocess.run([READERS, CLIENT, PROGRAM.resolve(), "mcp", *map(str, arguments)], input=json.dumps(calls),
                            capture_output=True, text=True, timeout=120, env=SERVER)
    assert not check or result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def folder(tmp_path):
    make(tmp_path / "run" / "a.vrt" if (tmp_path / "run").mkdir() else tmp_path / "run" / "a.vrt")
    make(tmp_path / "b.vrt", (1, 2, 4, 6), seconds=60)
    return tmp_path.resolve()


# ---- Through the SDK ----


@with_sdk
def test_first_words_and_tools(folder):
    first, tools, pong = ask([folder], ["list"], ["ping"])
    assert first["serverInfo"]["name"] == "vramtrace" and first["protocolVersion"] >= "2025-06-18"  # as new as the client's
    assert "summary" in first["instructions"]
    assert [tool["name"] for tool in tools] == TOOLS
    for tool in tools:
        schema = tool["inputSchema"]
        assert tool["description"] and tool["annotations"]["readOnlyHint"] is True
        assert schema["type"] == "object" and schema["additionalProperties"] is False and "offset" in schema["properties"]
        assert all(value["description"] and value["type"] in ("string", "integer", "boolean")
                   for value in schema["properties"].values())


@with_sdk
def test_every_tool(folder):
    write(folder / "run" / "f3.py", b"x = 1\n" * 6 + b"make_the_large_one()\n")
    a = {"trace": "run/a.vrt"}
    _, traces, summary, report, by, leaks, oom, frag, diff, moments, files, lines, explain, sql = ask(
        [folder], ["traces", {}], ["summary", a], ["report", a], ["report", {**a, "by": "line", "at": "mark:here", "top": 2}],
        ["leaks", a], ["oom", a], ["frag", a], ["diff", {"trace": "run/a.vrt", "other_trace": "b.vrt", "by": "line"}],
        ["diff", {**a, "at": "mark:here", "other_at": "end"}], ["annotate", a], ["annotate", {**a, "file": "f3.py"}],
        ["explain", {**a, "what": "other"}],
        ["sql", {**a, "query": "SELECT kind, count(*) AS n, sum(bytes) FROM events GROUP BY kind ORDER BY n DESC"}])
    answers = [traces, summary, report, by, leaks, oom, frag, diff, moments, files, lines, explain, sql]
    assert not any(answer["failed"] for answer in answers)
    assert all(len(answer["text"].encode()) < 2200 for answer in answers)
    assert [trace["trace"] for trace in traces["data"]["traces"]] == ["b.vrt", "run/a.vrt"]  # the newest first
    assert traces["data"]["traces"][0]["began"] == "2023-11-14 22:14:20 UTC"
    told = json.loads(run("report", "--json", folder / "run/a.vrt").stdout)
    device, = summary["data"]["devices"]
    peak = told["devices"][0]["peak"]
    assert device["peak"] == {**{name: peak[name] for name in device["peak"] if name in peak}, "used_bytes": 15 * MIB}
    assert device["peak"]["block_bytes"] == 15 * MIB and summary["data"]["out_of_memory"] == 1
    assert "15 MiB" in report["text"] and "OUT OF MEMORY" in summary["text"] and "1 TiB" in oom["text"]
    assert "f3.py:7" in by["text"] and "… 2 more" in by["text"] and "f1.py:7" not in by["text"]
    assert "cannot be judged" in leaks["text"] and "64 MiB reserved" in frag["text"]
    assert "−2 MiB" in diff["text"] and "−2 MiB" in moments["text"]
    assert "8 MiB" in files["text"] and "make_the_large_one()" in lines["text"]
    assert "other (a category)" in explain["text"]
    assert sql["data"] == {"columns": ["kind", "n", "sum(bytes)"], "more": False, "rows": [
        ["alloc", 5, 79 * MIB], ["free", 1, 2 * MIB], ["mark", 1, 0], ["oom", 1, 1 << 40]]} or sorted(
        sql["data"]["rows"]) == [["alloc", 5, 79 * MIB], ["free", 1, 2 * MIB], ["mark", 1, 0], ["oom", 1, 1 << 40]]
    assert all(answer["text"].startswith("run/a.vrt\n") for answer in answers[1:])


@with_sdk
def test_pages_make_up_the_whole(folder):
    trace = {"trace": "run/a.vrt"}
    calls, text, offset = [], "", 0
    _, *pages = ask([folder], *[["sql", {**trace, "query": "SELECT * FROM columns", "top": 10_000, "offset": offset}]
                                for offset in (0, 1 << 20, 999_999_999)])
    assert "offset=" in pages[0]["text"] and "nothing after" in pages[1]["text"] and "nothing after" in pages[2]["text"]
    assert pages[0]["data"] and not pages[1]["data"]
    while True:
        page = ask([folder], ["sql", {**trace, "query": "SELECT column_name, about FROM columns", "top": 60, "offset": offset}])[1]
        rest = page["text"]
        found = "for more: the same call" in rest
        text += rest.rsplit("… ", 1)[0] if found else rest
        calls.append(len(rest.encode()))
        if not found:
            break
        offset = int(rest.rsplit("offset=", 1)[1])
    assert len(calls) > 1 and max(calls) < 2200
    assert text.count("\n") == 60 + 3 and len(set(text.splitlines())) > 50  # trace, titles, rows, that there are more
    assert [len(line) > 2000 for line in text.splitlines()].count(True) == 0


@with_sdk
def test_errors_say_what_to_do(folder):
    wrong = [
        (["summary", {"trace": "none.vrt"}], "`traces` lists them"), (["summary", {"trace": 7}], "`trace` takes a text"),
        (["report", {"by": "colour"}], "category, module"), (["report", {"top": 0}], "from 1 to"),
        (["report", {"top": 2.5}], "whole number"), (["report", {"path": "x"}], "`trace`"),
        (["report", {"at": "mark:nope"}], "it has 'here'"), (["report", {"at": "step:99"}], "no step 99"),
        (["report", {"device": 9}], "no device 9"), (["explain", {}], "`what`"),
        (["diff", {"trace": "b.vrt"}], "`other_trace`"), (["annotate", {"file": "nope.py"}], "f3.py"),
        (["annotate", {"all": "yes"}], "true or false"), (["sql", {"query": "SELEC 1"}], "syntax error"),
        (["sql", {"query": "SELECT nope FROM events"}], "without `query`"), (["sql", {"query": "  "}], "one SELECT"),
        (["sql", {"query": "SELECT 1; SELECT 2"}], "one statement"),
    ]
    _, *answers = ask([folder], *[call for call, _ in wrong], ["nothing", {}], ["summary", {}])
    for (call, part), answer in zip(wrong, answers):
        assert answer["failed"] and part in answer["text"] and len(answer["text"]) < 2500, (call, answer)
    assert "no such tool" in answers[-2]["protocol_error"]
    assert answers[-1]["failed"] is False  # it goes on


@with_sdk
def test_sql_reads_only(folder, tmp_path):
    other = tmp_path / "other.db"
    forbidden = [f"ATTACH '{other}' AS x", "PRAGMA query_only = OFF", "PRAGMA writable_schema = 1", "DELETE FROM events",
                 "INSERT INTO marks SELECT * FROM marks", "CREATE TABLE x (y)", "CREATE TEMP TABLE x (y)", "DROP TABLE events",
                 "UPDATE events SET bytes = 0", "VACUUM", f"VACUUM INTO '{other}'", "BEGIN", "REINDEX", "ANALYZE",
                 "SELECT load_extension('x')", "SELECT fts3_tokenizer('simple')", f"SELECT writefile('{other}', 'x')",
                 "SELECT readfile('/etc/passwd')",
                 "SELECT * FROM pragma_table_info('events')", "DETACH main", "EXPLAIN DELETE FROM events",
                 "WITH x AS (SELECT 1) DELETE FROM events"]
    large = ["SELECT hex(zeroblob(100000000))",
             "WITH RECURSIVE a(x) AS (SELECT randomblob(100000) UNION ALL SELECT randomblob(100000) FROM a LIMIT 100000) "
             "SELECT * FROM a ORDER BY 1",
             "SELECT instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1')",  # would take hours, and cannot be interrupted
             "SELECT hex(zeroblob(100000)) LIKE '%' || hex(zeroblob(1000)) || '1'"]
    endless = "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT count(*) FROM a"
    began = time.monotonic()
    _, *answers = ask([folder], *[["sql", {"query": text}] for text in (*forbidden, *large, endless,
                                                                        "SELECT count(*) FROM events")])
    assert [text for text, answer in zip(forbidden, answers) if not answer["failed"]] == []
    assert all(any(word in answer["text"] for word in ("memory", "too big", "too complex")) for answer in answers[len(forbidden):-2])
    assert "timed out after 5 s" in answers[-2]["text"] and time.monotonic() - began < 60
    assert answers[-1]["data"]["rows"] == [[8]]
    assert not other.exists()


@with_sdk
def test_nothing_outside_can_be_opened(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside").resolve()
    secret = make(outside / "secret.vrt")
    (folder / "link.vrt").symlink_to(secret)
    (folder / "away").symlink_to(outside)
    (folder / "inner.vrt").symlink_to(folder / "b.vrt")
    os.mkfifo(folder / "pipe.vrt")
    (folder / "notes.vrt").write_text("notes\n" * 3000)
    names = [str(secret), f"../{outside.name}/secret.vrt", "link.vrt", "away/secret.vrt", "run/../../outside/secret.vrt", "/etc/passwd",
             "pipe.vrt", "run", ".", "..", "/", "notes.vrt", "b.vrt/", "x" * 5000, "b.vrt\0x\n" + "\u202e"]
    _, *answers = ask([folder], *[["summary", {"trace": name}] for name in names], ["summary", {"trace": "inner.vrt"}],
                      ["summary", {"trace": str(folder / "run/a.vrt")}], ["traces", {}])
    assert [name for name, answer in zip(names, answers) if not answer["failed"] and "\0" not in name] == []
    assert not any("15 MiB" in answer["text"] for answer in answers[:-3])
    assert not answers[-3]["failed"] and not answers[-2]["failed"]
    assert [trace["trace"] for trace in answers[-1]["data"]["traces"]] == ["b.vrt", "run/a.vrt"]
    # traces that were named, and no others of their folder
    _, named, other, listed = ask([folder / "run/a.vrt"], ["summary", {"trace": "a.vrt"}],
                                  ["summary", {"trace": str(folder / "b.vrt")}], ["traces", {}])
    assert (named["failed"], other["failed"], listed["data"]["count"]) == (False, True, 1)


@with_sdk
def test_hostile_names(tmp_path):
    inner = tmp_path / "x"
    inner.mkdir()
    hostile_trace(os.fsencode(inner) + b"/" + HOSTILE[:40].replace(b"/", b"").replace(b"\0", b"") + b".vrt")
    hostile_trace(os.fsencode(inner) + b"/plain.vrt")
    trace = {"trace": "plain.vrt"}
    _, *answers = ask([inner], ["traces", {}], *[[tool, {**trace, **more}] for tool, more in (
        ("summary", {}), ("report", {}), ("report", {"by": "owner", "at": "end"}), ("oom", {}), ("frag", {}), ("leaks", {}),
        ("annotate", {}), ("annotate", {"file": "train.py"}), ("explain", {"what": "parameter"}), ("diff", {"other_at": "end"}),
        ("sql", {"query": "SELECT * FROM frames"}), ("sql", {"query": "SELECT name FROM marks"}),
        ("explain", {"what": "</script>\u202e\x1b[31m\n"}), ("annotate", {"file": "\x1b]0;owned\x07\u202e.py"}))])
    assert len(answers[0]["data"]["traces"]) == 2
    for answer in answers:
        assert not {ord(letter) for letter in answer["text"]} & UNSAFE, answer["text"]
        json.dumps(answer["data"], ensure_ascii=False).encode()


@with_sdk
@pytest.mark.parametrize("state", [1, 2], ids=["recording", "complete"])
def test_a_trace_that_changes(folder, state):
    make(folder / "b.vrt", (1, 2, 4, 6), state=state)
    pause = folder / "pause"
    calls = [["summary", {"trace": "b.vrt"}], ["sql", {"trace": "b.vrt", "query": "SELECT max(bytes) FROM events WHERE kind = 'free'"}],
             ["pause", str(pause)], ["summary", {"trace": "b.vrt"}],
             ["sql", {"trace": "b.vrt", "query": "SELECT max(bytes) FROM events WHERE kind = 'free'"}],
             ["pause", str(pause)], ["summary", {"trace": "b.vrt"}], ["summary", {"trace": "run/a.vrt"}]]
    done = []
    thread = threading.Thread(target=lambda: done.append(ask([folder], *calls)))
    thread.start()

    def write_on():
        was = (folder / "b.vrt").stat()
        make(folder / "b.vrt", (1, 3, 4, 6), state=state)
        if state == 1:  # its ring may have more: size and times stay
            os.utime(folder / "b.vrt", ns=(was.st_atime_ns, was.st_mtime_ns))

    for change in (write_on, (folder / "b.vrt").unlink):
        while not pause.exists() and thread.is_alive():
            time.sleep(0.02)
        change()
        pause.unlink()
    thread.join()
    _, before, bytes_before, _, after, bytes_after, _, gone, other = done[0]
    assert "13 MiB" in before["text"] and "14 MiB" in after["text"]
    assert (bytes_before["data"]["rows"], bytes_after["data"]["rows"]) == ([[2 * MIB]], [[3 * MIB]])
    assert gone["failed"] and not other["failed"]


FAILED = 18  # the driver refused


def times_trace(path, names=("f0.py", "f1.py"), ends=True):
    """Out of memory at the line of the second name; before, the driver refused one request of the first at first."""
    trace = TraceFile()
    trace.process([b"/opt/bin/python", b"train.py"], os.fsencode(path.parent), b"/opt/bin/python")
    trace.device(0, 1 << 30, b"Card")
    for i, name in enumerate(names):
        code(trace, i + 1, os.fsencode(path.parent / name))
        trace.stack(i + 1, python=[(i + 1, 0, 0)])
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB, stack=1)
    trace.event(ALLOC, FRAMEWORK, address=1 << 32, size=24 * MIB, detail=64 * MIB, stack=1)
    trace.event(FAILED, DRIVER, size=512 * MIB, detail=2, stack=1)
    trace.event(ALLOC, DRIVER, address=2 << 32, size=512 * MIB, stack=1)
    trace.event(ALLOC, FRAMEWORK, address=2 << 32, size=512 * MIB, detail=576 * MIB, stack=1)
    trace.event(FAILED, DRIVER, size=600 * MIB, detail=2, stack=2)
    trace.event(OOM, FRAMEWORK, size=600 * MIB, detail=576 * MIB, stack=2)
    if not ends:
        trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + 32 * MIB, size=MIB, detail=576 * MIB, stack=1)
        trace.event(FREE, FRAMEWORK, address=2 << 32, size=512 * MIB, detail=576 * MIB)
    return trace.write(path)


@with_sdk
def test_whose_request_was_granted_later(tmp_path):
    times_trace(tmp_path / "a.vrt")
    text = " ".join(ask([tmp_path], ["oom", {}])[1]["text"].split())
    assert "600 MiB requested" in text and "by f1.py:7" in text
    assert text.split("Besides, one request succeeded only after")[1].split(" after start")[0].count("512 MiB for f0.py:7") == 1
    told = json.loads(run("oom", "--json", tmp_path / "a.vrt").stdout)["survived"]
    assert (told["times"], told["largest_bytes"], told["largest_line"]["line"]) == (1, 512 * MIB, 7)
    assert told["largest_line"]["file"].endswith("f0.py") and 0 < told["largest_t_ns"]
    assert "512 MiB for f0.py:7" in " ".join(run("oom", tmp_path / "a.vrt").stdout.split())


@with_sdk
def test_what_stays_until_the_end_is_not_freed_next(tmp_path):
    """Nothing is allocated after the large block is freed: the program did not free it to go on."""
    times_trace(tmp_path / "a.vrt", ends=False)
    told = json.loads(run("oom", "--json", tmp_path / "a.vrt").stdout)["last"]
    assert told["freed_next"] == [] and told["freed_next_happened"] is True
    assert "Nothing was freed afterwards." in ask([tmp_path], ["oom", {}])[1]["text"]


@with_sdk
def test_the_hole_that_was_too_small(tmp_path):
    times_trace(tmp_path / "a.vrt")
    told = json.loads(run("frag", "--json", tmp_path / "a.vrt").stdout)["devices"][0]
    _, then, end = ask([tmp_path], ["frag", {}], ["frag", {"at": "peak"}])
    assert told["largest_hole_bytes"] == 40 * MIB
    assert "600 MiB was requested; the largest gap was 40 MiB." in " ".join(then["text"].split())
    assert "requested" not in end["text"] and "The largest gap is 40 MiB" in end["text"]


@with_sdk
def test_the_list_tells_how_runs_ended(tmp_path):
    times_trace(tmp_path / "ended.vrt")
    times_trace(tmp_path / "went_on.vrt", ends=False)
    make(tmp_path / "recording.vrt", seconds=60)
    answer = ask([tmp_path], ["traces", {}])[1]
    told = {trace["trace"]: trace for trace in answer["data"]["traces"]}
    for name, trace in told.items():
        facts = json.loads(run("report", "--json", tmp_path / name).stdout)
        assert trace["peak_used_bytes"] == facts["devices"][0]["peak"]["block_bytes"]  # all of it is in segments
        assert trace["out_of_memory"] == len(facts["out_of_memory"]) == 1
    assert told["ended.vrt"]["outcome"] == told["recording.vrt"]["outcome"] == "out of memory"
    assert told["went_on.vrt"]["outcome"].endswith(", ran out of memory but continued")
    assert told["ended.vrt"]["command"] == "python train.py"
    assert "ended.vrt: out of memory · peak 536 MiB · python train.py\n" in answer["text"]


@pytest.mark.parametrize("state", [1, 2], ids=["recording", "complete"])
def test_the_list_is_remembered_until_a_file_changes(folder, state):
    make(folder / "b.vrt", (1, 2, 4, 6), state=state)
    server = Server(folder)

    def peak():
        traces = server.ask("tools/call", {"name": "traces"})["result"]["structuredContent"]["traces"]
        return next(trace["peak_used_bytes"] for trace in traces if trace["trace"] == "b.vrt")

    assert peak() == peak() == 13 * MIB
    was = (folder / "b.vrt").stat()
    make(folder / "b.vrt", (1, 3, 4, 6), state=state)
    if state == 1:
        os.utime(folder / "b.vrt", ns=(was.st_atime_ns, was.st_mtime_ns))
    assert peak() == 14 * MIB and server.end()[2] == 0


@with_sdk
def test_no_words_for_a_command_line(folder):
    a = {"trace": "run/a.vrt"}
    calls = [["summary", a], ["report", a], ["report", {**a, "top": 1}], ["leaks", a], ["oom", a], ["frag", a], ["annotate", a],
             ["annotate", {**a, "file": "f0.py"}], ["annotate", {**a, "top": 1}], ["explain", {**a, "what": "other"}],
             ["explain", {**a, "what": "nothing"}], ["diff", {**a, "at": "mark:here", "other_at": "end", "top": 1}]]
    for call, answer in zip(calls, ask([folder], *calls)[1:]):
        text = answer["text"].replace(str(folder), "")
        assert not answer["failed"] and "vramtrace " not in text and " --" not in text, (call, text)
        head = text.split("\n\n")[0]
        assert head.startswith("run/a.vrt\n") and (call[0] == "diff" or len(head) < 100), head


@with_sdk
def test_one_table_is_all_that_by_gives(folder):
    whole, one = ask([folder], ["report", {}], ["report", {"by": "line"}])[1:]
    assert "OUT OF MEMORY" in whole["text"] and "By line" in whole["text"]
    assert "By line" in one["text"] and not any(word in one["text"] for word in ("OUT OF MEMORY", "Peak ", "Evidence", "GPU:"))


def rank_trace(path, rank, world, batch, started_s=0, fails=False):
    """A rank with parameters of 8 MiB (f0.py) and a batch (f1.py); with `fails` it is refused another batch after 2 s."""
    trace = TraceFile(host=b"node%d" % (rank % 2), started_ns=(1_700_000_000 + started_s) * 1_000_000_000)
    trace.process([b"python", b"train.py"], os.fsencode(path.parent), b"/bin/python")
    variables = {"RANK": rank, "LOCAL_RANK": rank // 2, "WORLD_SIZE": world, "TORCHELASTIC_RUN_ID": "x"}
    trace.record(LAUNCH, b"".join(f"{name}={value}".encode() + b"\0" for name, value in variables.items()))
    trace.device(0, 1 << 30, b"Card")
    for i in range(2):
        code(trace, i + 1, os.fsencode(path.parent / f"f{i}.py"))
        trace.stack(i + 1, python=[(i + 1, 0, 0)])
    trace.event(ALLOC, DRIVER, address=1 << 32, size=512 * MIB)
    trace.event(ALLOC, FRAMEWORK, address=1 << 32, size=8 * MIB, detail=512 * MIB, stack=1)
    trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + 8 * MIB, size=batch * MIB, detail=512 * MIB, stack=2)
    if fails:
        trace.event(OOM, FRAMEWORK, size=600 * MIB, detail=512 * MIB, stack=2, after_ns=2_000_000_000)
    else:  # its peak comes when it is too late
        trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + 256 * MIB, size=100 * MIB, detail=512 * MIB, stack=2, after_ns=9_000_000_000)
    return trace.write(path)


@pytest.fixture
def ranks(tmp_path):
    """Four ranks on two nodes, of which rank 2 fails; and a run of another day."""
    for rank in range(4):
        (tmp_path / f"node{rank % 2}").mkdir(exist_ok=True)
        rank_trace(tmp_path / f"node{rank % 2}" / f"{rank}.vrt", rank, 4, 200 if rank == 2 else 40, fails=rank == 2)
    make(tmp_path / "old.vrt", seconds=-100_000)
    return tmp_path


@with_sdk
def test_a_job(ranks):
    _, listed, summary, job, oom, one = ask([ranks], ["traces", {}], ["summary", {"trace": "node0/2.vrt"}], ["job", {}],
                                            ["job", {"oom": True, "top": 100}], ["job", {"trace": "old.vrt"}])
    assert {trace["trace"]: trace.get("rank") for trace in listed["data"]["traces"]} == {
        "node0/0.vrt": 0, "node1/1.vrt": 1, "node0/2.vrt": 2, "node1/3.vrt": 3, "old.vrt": None}
    assert "rank 2 · " in listed["text"] and "This is rank 2 of 4 (torchrun): `job` tells" in summary["text"]
    data = job["data"]
    assert data["process_count"] == 4 and data["unread"] == []
    assert {process["label"]: (process["trace"], process["devices"][0]["peak_used_bytes"]) for process in data["processes"]} == {
        f"rank {rank}": (f"node{rank % 2}/{rank}.vrt", (208 if rank == 2 else 148) * MIB) for rank in range(4)}
    (group,) = data["runs"][0]["groups"]
    (odd,) = group["outliers"]
    assert (odd["process"], odd["bytes"], odd["usual_bytes"]) == (2, 208 * MIB, 148 * MIB)
    assert odd["lines"][0]["file"].endswith("f1.py") and odd["lines"][0]["difference_bytes"] == 60 * MIB
    assert "Rank 2 peaks at 208 MiB" in job["text"] and "Details: `job` with oom=true" in " ".join(job["text"].split())
    # when rank 2 failed the others had not come to their peaks
    (differs,) = oom["data"]["first_differs"]
    assert (differs["process"], differs["bytes"], differs["usual_bytes"],
            differs["usual_peak_bytes"]) == (2, 208 * MIB, 48 * MIB, 148 * MIB)
    assert (oom["data"]["failures"][0]["process"], oom["data"]["failures"][0]["failed_request"]["requested_bytes"]) == (2, 600 * MIB)
    assert "first in rank 2 (node0/2.vrt)" in oom["text"] and "f1.py:7" in oom["text"]
    for answer in (job, oom, one):
        assert "vramtrace " not in answer["text"] and str(ranks) not in answer["text"]
    assert one["data"]["process_count"] == 1 and "pid" in one["text"]  # of another day


@with_sdk
def test_a_job_of_which_some_cannot_be_read(ranks):
    (ranks / "node1" / "3.vrt").write_bytes((ranks / "node1" / "3.vrt").read_bytes()[:100])
    (ranks / "node1" / "notes.vrt").write_text("notes\n" * 3000)
    _, job, alone = ask([ranks], ["job", {"trace": "node0/0.vrt"}], ["job", {"trace": "node1/notes.vrt"}])
    assert [(file["file"], bool(file["why"])) for file in job["data"]["unread"]] == [("node1/3.vrt", True)]
    assert job["data"]["process_count"] == 3 and "Not read: node1/3.vrt" in job["text"] and "Missing: no trace of rank 3." in job["text"]
    assert alone["failed"] and "notes.vrt is not a trace" in alone["text"]


@with_sdk
def test_a_job_of_many_ranks_stays_small(tmp_path):
    for rank in range(200):
        rank_trace(tmp_path / f"{rank}.vrt", rank, 200, 40 + 40 * (rank % 20 == 0) + rank % 20 // 19, fails=rank % 20 == 0)
    _, job, more, oom = ask([tmp_path], ["job", {}], ["job", {"offset": 2000}], ["job", {"oom": True}])
    assert job["data"]["process_count"] == 200 and not more["failed"]
    for answer in (job, oom):
        assert len(answer["text"].encode()) < 2200 and len(json.dumps(answer["data"])) < 20_000


@with_sdk
def test_a_job_whose_files_change(ranks):
    pause = ranks / "pause"
    calls = [["job", {}], ["pause", str(pause)], ["job", {}]]
    done = []
    thread = threading.Thread(target=lambda: done.append(ask([ranks], *calls)))
    thread.start()
    while not pause.exists() and thread.is_alive():
        time.sleep(0.02)
    (ranks / "node1" / "3.vrt").unlink()
    pause.unlink()
    thread.join()
    _, before, _, after = done[0]
    assert (before["data"]["process_count"], after["data"]["process_count"]) == (4, 3)


def without(value, *names):
    """A document without some members, anywhere in it."""
    if isinstance(value, dict):
        return {name: without(item, *names) for name, item in value.items() if name not in names}
    return [without(item, *names) for item in value] if isinstance(value, list) else value


@with_sdk
def test_documents_as_data(folder):
    a = {"trace": "run/a.vrt"}
    _, oom, leaks = ask([folder], ["oom", {**a, "top": 100}], ["leaks", a])
    told = json.loads(run("oom", "--json", folder / "run/a.vrt").stdout)
    groups = set(told["last"]["at"]) - set(oom["data"]["last"]["at"])
    assert groups <= {name for name in told["last"]["at"] if name.startswith("by_") or isinstance(told["last"]["at"][name], list)}
    assert without(oom["data"], "at", "stack") == without(told, "at", "stack")
    assert leaks["data"] == json.loads(run("leaks", "--json", folder / "run/a.vrt").stdout)
    assert len(json.dumps(ask([folder], ["oom", a])[1]["data"])) < 6000


@with_sdk
def test_tables_columns_and_cells(folder):
    long = "SELECT group_concat(about, ' ') FROM columns"
    _, listed, tables, columns, views, cut, whole, more = ask(
        [folder], ["sql", {}], ["sql", {"query": "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')", "top": 100}],
        ["sql", {"query": "SELECT table_name, column_name FROM columns", "top": 1000}],
        ["sql", {"query": "SELECT (SELECT sum(counted_bytes + cached_change_bytes) FROM alive_at_oom), "
                          "(SELECT count(*) FROM (SELECT * FROM alive_at_oom EXCEPT SELECT * FROM alive_at_end))"}],
        ["sql", {"query": long}], ["sql", {"query": long, "cell_characters": 900}], ["sql", {"query": long, "cell_characters": 0}])
    names = {name for name, in tables["data"]["rows"]}
    assert names == {table for table, _ in listed["data"]["rows"]} == {table for table, _ in columns["data"]["rows"]}
    assert {"alive_at_peak", "alive_at_end", "alive_at_oom", "stack_texts"} < names
    assert len(listed["text"].partition("\n… ")[0]) < 2000  # a page, before how to get the rest
    used = ask([folder], *[["sql", {"query": f"SELECT * FROM {name} LIMIT 0"}] for name in sorted(names)])[1:]
    for name, answer in zip(sorted(names), used):
        assert sorted(answer["data"]["columns"]) == sorted(column for table, column in columns["data"]["rows"] if table == name)
    card = json.loads(run("oom", "--json", folder / "b.vrt").stdout)["last"]["gpu"]
    assert views["data"]["rows"] == [[card["driver_bytes"], 0]]
    assert len(cut["text"]) < 250 < 900 < len(whole["text"]) < 1000 and "…" in whole["text"]
    assert more["failed"] and "from 1 to" in more["text"]


# ---- The protocol by hand ----


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


class Server:
    """Messages to a server, one a line."""

    def __init__(self, *arguments, cwd=None, greet=True):
        if not READERS:
            pytest.skip("VRAMTRACE_READERS is not set: no MCP server")
        self.process = subprocess.Popen([PROGRAM.resolve(), "mcp", *map(str, arguments)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=SERVER)
        if greet:
            assert self.ask("initialize", HELLO)["result"]["serverInfo"]["name"] == "vramtrace"
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, data):
        self.process.stdin.write(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")
        self.process.stdin.flush()

    def read(self):
        assert select.select([self.process.stdout], [], [], 30)[0], "no answer"
        return json.loads(self.process.stdout.readline())

    def ask(self, method, params=None, number=1):
        self.send({"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params is not None else {})})
        return self.read()

    def memory(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def end(self):
        rest, errors = self.process.communicate(timeout=30)
        return rest, errors, self.process.returncode


@pytest.mark.parametrize("query", [
    "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT x, count(*) FROM a GROUP BY x ORDER BY 2",
    "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT x FROM a ORDER BY hex(x) DESC"], ids=["groups", "order"])
def test_the_limit_of_memory_holds(query, folder):
    """SQLite does not count what its small allocations take besides their bytes."""
    server = Server(folder)
    server.ask("tools/call", {"name": "sql", "arguments": {"query": "SELECT 1"}})
    before, answer = server.memory(), server.ask("tools/call", {"name": "sql", "arguments": {"query": query}})
    most = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) << 10
    assert answer["result"]["isError"] and most < before + 256 * MIB * 1.1
    server.end()


@pytest.fixture
def server(folder):
    server = Server(folder)
    yield server
    server.process.kill()
    server.process.communicate()


@pytest.mark.parametrize("asked", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "1999-01-01"])
def test_versions(folder, asked):
    server = Server(folder, greet=False)
    answer = server.ask("initialize", {**HELLO, "protocolVersion": asked})
    offered = answer["result"]["protocolVersion"]
    assert offered == asked if asked > "2000" else offered > "2025"
    assert answer["jsonrpc"] == "2.0" and answer["id"] == 1 and list(answer["result"]["capabilities"]) == ["tools"]
    server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    server.send({"jsonrpc": "2.0", "method": "notifications/of_another_kind"})
    server.send({"jsonrpc": "2.0", "id": 9, "result": {}})  # an answer to nothing
    assert server.ask("ping", number="text") == {"jsonrpc": "2.0", "id": "text", "result": {}}
    assert server.end() == (b"", b"", 0)


# What no client sends. The SDK says nothing to what is no request (-32700, -32600), and goes on.
BAD = [(b"this is no JSON\n", -32700, None), (b"{\"jsonrpc\": \"2.0\", \"id\": 1,\n", -32700, None), (b"{} {}\n", -32700, None),
       (b"\xff\xfe\n", -32700, None), (b"{\"a\": \"\xed\xa0\x80\"}\n", -32700, None), (b"{\0}\n", -32700, None),
       (b"[" * 100_000 + b"\n", -32700, None), (b"7\n", -32600, None), (b"\"x\"\n", -32600, None), (b"null\n", -32600, None),
       (b"{}\n", -32600, None), (b"[]\n", -32600, None), (b"{\"id\": 5, \"method\": \"ping\"}\n", -32600, 5),
       (b"{\"jsonrpc\": \"1.0\", \"id\": 5, \"method\": \"ping\"}\n", -32600, 5),
       (b"{\"jsonrpc\": \"2.0\", \"id\": null, \"method\": \"ping\"}\n", -32600, None),
       (b"{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": \"ping\"}\n", -32600, None),
       (b"{\"jsonrpc\": \"2.0\", \"id\": 5, \"method\": 7}\n", -32600, 5),
       (b"{\"jsonrpc\": \"2.0\", \"id\": 5, \"method\": \"server/discover\"}\n", -32601, 5),
       (b"{\"jsonrpc\": \"2.0\", \"id\": 5, \"method\": \"resources/list\"}\n", -32601, 5),
       (b"{\"jsonrpc\": \"2.0\", \"id\": 5, \"method\": \"ping\", \"params\": [1]}\n", -32600, 5),
       (b"{\"jsonrpc\": \"2.0\", \"id\": 5, \"method\": \"tools/call\"}\n", -32602, 5),
       (b"{\"jsonrpc\": \"2.0\", \"id\": 5, \"method\": \"tools/call\", \"params\": {\"name\": \"rm\"}}\n", -32602, 5),
       (b"{\"jsonrpc\": \"2.0\", \"id\": 5, \"method\": \"tools/call\", \"params\": {\"name\": \"sql\", \"arguments\": []}}\n", -32602, 5),
       (b"x" * (1 << 20) + b"xx\n", -32600, None), (b"{\"x\": \"" + b"y" * (5 << 20) + b"\"}\n", -32600, None)]


def test_the_tools_take_little_room(server):
    server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert len(server.process.stdout.readline()) <= 13 << 9


@pytest.mark.parametrize("message,error,number", BAD, ids=[str(case[0][:50]) for case in BAD])
def test_bad_messages(server, message, error, number):
    server.send(message)
    if error in (-32601, -32602):
        answer = server.read()
        assert (answer["jsonrpc"], answer["error"]["code"], answer["id"]) == ("2.0", error, number) and answer["error"]["message"]
    server.send(b"\n  \r\n")  # empty lines are nothing
    assert server.ask("ping", number=6)["result"] == {}
    assert server.end() == (b"", b"", 0)


@pytest.mark.parametrize("number", [0, -1, 2**53, -(2**53), 2**52 + 1, "text"])
def test_the_id_comes_back_as_it_was(server, number):
    assert server.ask("ping", number=number)["id"] == number


def test_large_numbers_are_not_rounded(server, folder):
    trace = TraceFile(started_ns=1_800_000_000_000_000_000)
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB, after_ns=2**62 + 256)
    trace.write(folder / "long.vrt")
    data = server.ask("tools/call", {"name": "summary", "arguments": {"trace": "long.vrt"}})["result"]["structuredContent"]
    assert data["devices"][0]["peak"]["t_ns"] == 2**62 + 256


def test_pieces_and_the_last_line(folder):
    """Messages in pieces, two in one write, and one without a line break at the end."""
    server = Server(folder)
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    for piece in (ping[:10], ping[10:20], ping[20:] + b"\r\n" + ping + b"\n" + ping):
        server.send(piece)
        time.sleep(0.02)
    rest, errors, status = server.end()
    assert [json.loads(line)["result"] for line in rest.splitlines()] == [{}] * 3 and (errors, status) == (b"", 0)


def test_hundreds_of_calls_do_not_grow(folder):
    for i in range(6):  # more than are kept in memory
        make(folder / f"more{i}.vrt")
    server = Server(folder)
    calls = [("summary", {}), ("report", {"by": "line"}), ("oom", {}), ("annotate", {"file": "f1.py"}), ("frag", {}),
             ("sql", {"query": "SELECT * FROM allocations"}), ("diff", {"other_at": "end"}), ("traces", {}),
             ("summary", {"trace": "none.vrt"}), ("sql", {"query": "SELEC"})]

    def many(count):
        for i in range(count):
            tool, arguments = calls[i % len(calls)]
            if tool != "traces" and "trace" not in arguments:
                arguments = {**arguments, "trace": f"more{i // len(calls) % 6}.vrt"}
            answer = server.ask("tools/call", {"name": tool, "arguments": arguments}, number=i)
            assert answer["id"] == i and answer["result"]["content"][0]["text"]
        return server.memory()

    before = many(150)
    after = many(350)
    assert after < before + 4 * MIB, (before, after)  # a tenth of what 350 traces would take
    assert server.end()[2] == 0


def test_the_client_goes_away(folder):
    server = Server(folder)
    server.process.stdout.close()
    server.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    server.process.stdin.close()
    assert server.process.wait(timeout=30) == 0


def test_wrong_use(tmp_path):
    check_refused(run("mcp", tmp_path / "none"), 3, "none", "No such file")
    check_refused(run("mcp", "--json"), 2, "--json")
    empty = Server(cwd=tmp_path)
    answer = empty.ask("tools/call", {"name": "summary"})
    assert answer["result"]["isError"] is True and "vramtrace run" in answer["result"]["content"][0]["text"]
    assert empty.ask("tools/call", {"name": "traces"})["result"]["structuredContent"]["count"] == 0
    assert empty.end()[2] == 0


def test_a_folder_with_too_many_files(folder):
    for i in range(10_001):
        (folder / "run" / f"{i}").touch()
    server = Server(folder)
    answer = server.ask("tools/call", {"name": "traces"})["result"]
    assert answer["structuredContent"]["cut"] is True and "Only the first 10000 files" in answer["content"][0]["text"]
    assert server.end()[2] == 0


# ---- What it needs, and what it may take ----


def test_without_the_sdk(folder, tmp_path_factory):
    hidden = tmp_path_factory.mktemp("hidden")
    (hidden / "mcp.py").write_text("raise ImportError")
    done = run("mcp", folder, env={**os.environ, "VRAMTRACE_PYTHON": sys.executable, "PYTHONPATH": str(hidden)})
    assert done.returncode == 2 and f"{sys.executable} -m pip install 'mcp>=2,<3'" in done.stderr and len(done.stderr.splitlines()) == 1
    done = run("mcp", folder, env={**os.environ, "VRAMTRACE_PYTHON": "/nowhere/python"})
    assert done.returncode == 2 and "cannot start /nowhere/python: No such file or directory" in done.stderr


ASK = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from vramtrace import mcp, mcp_tools
from vramtrace.mcp_traces import Traces
mcp_tools.MAX_EVENTS = int(sys.argv[5])
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[4]), resource.RLIM_INFINITY))
tools = mcp_tools.Tools(mcp_tools.Program(sys.argv[2]), Traces([sys.argv[3]]))
print(json.dumps([mcp.call_tool(tools, name, given) for name, given in json.load(sys.stdin)]))
"""


def ask_within(folder, memory, events, *calls):
    """Answers of the tools alone, whose limits are these."""
    python = pathlib.Path(__file__).parents[2] / "python"
    done = subprocess.run([sys.executable, "-c", ASK, python, PROGRAM.resolve(), folder, str(memory), str(events)], input=json.dumps(calls),
                          capture_output=True, text=True, timeout=120, check=True)
    return [(answer["content"][0]["text"], answer.get("isError", False), answer.get("structuredContent"))
            for answer in json.loads(done.stdout)]


new_python = pytest.mark.skipif(sys.version_info < (3, 11), reason="the server needs Python 3.11")


@new_python
def test_a_limit_on_events(ranks):
    (text, failed, data), (listed, _, traces) = ask_within(ranks, 8 << 30, 8, ["job", {"trace": "node0/2.vrt"}], ["traces", {}])
    assert not failed and "2 more traces of that time were left out: together they are too large.\n" in text and data["process_count"] == 2
    assert sum("outcome" in trace for trace in traces["traces"]) == 2 and listed.count("not read here") == 3


@new_python
def test_a_limit_on_memory(tmp_path):
    make(tmp_path / "little.vrt")
    large = TraceFile()
    large.device(0, 80 << 30, b"Card")
    large.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB)
    for _ in range(250_000):
        large.event(ALLOC, FRAMEWORK, address=1 << 32, size=MIB, detail=64 * MIB)
        large.event(FREE, FRAMEWORK, address=1 << 32, size=MIB, detail=64 * MIB)
    large.write(tmp_path / "large.vrt")
    (_, failed, _), (text, too_much, _) = ask_within(tmp_path, 40 * MIB, 1 << 40, ["summary", {"trace": "little.vrt"}],
                                                     ["annotate", {"trace": "large.vrt"}])
    assert not failed and too_much and "of memory, the limit of an answer" in text
