"""Whatever a trace, a file name or a command line holds: JSON is valid JSON in valid UTF-8, and nothing that is printed moves
a terminal's cursor."""

import json
import os
import re
import subprocess

import pytest

from test_cli import PROGRAM, run, write_trace
from trace_file import (ALLOC, CONTEXT_CREATE, DRIVER, FRAMEWORK, FUNCTION, LOOK_EVENT, MARK, OOM, THREAD, TraceFile)

# Not UTF-8, cut short, overlong, surrogates, beyond Unicode, C0 and C1 controls, a title for the terminal, turned text.
HOSTILE = (b"\xff\xfe \xe2\x82 \xc0\xaf \xed\xa0\x80\xed\xb0\x80 \xf5\x80\x80\x80 \xf4\x90\x80\x80 \x01\x0e1\x1b]0;owned\x07"
           b"\x1b[31m \x7f \x9b31m \xc2\x9b31m \xe2\x80\xae \xe2\x80\xa8 \"quoted\" \\u0000 \\ \t\r\n caf\xc3\xa9 \xe4\xba\xba")
MIB = 1 << 20
UNSAFE = {*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {0x0A}


def hostile_trace(path):
    """Every text that a trace can hold, and memory that each of them names."""
    trace = TraceFile(host=HOSTILE[:63])
    trace.process([b"python", HOSTILE, HOSTILE], b"/home/" + HOSTILE, b"/bin/" + HOSTILE)
    trace.device(0, 80 << 30, HOSTILE)
    trace.string(1, HOSTILE, kind=FUNCTION)
    trace.string(77, HOSTILE, kind=THREAD)
    trace.string(1, HOSTILE)
    trace.string(2, b"x" * 195 + HOSTILE)  # names are cut at about 200 bytes
    trace.module(0x1000, 0x9000, b"/lib/" + HOSTILE)
    trace.symbol(0x1234, 0x1000, HOSTILE.replace(b"\0", b""))
    trace.code(1, b"/home/" + HOSTILE + b"/train.py", HOSTILE)
    trace.code(2, b"y" * 250 + HOSTILE, b"z" * 250 + HOSTILE)
    trace.stack(1, native=[0x1234, 0x2345], python=[(1, 0, 0x5000), (2, 0, 0)], function=1)
    trace.stack(2, python=[(2, 0, 0)])
    trace.stack(3, native=[0x1234])
    name = HOSTILE.translate(None, b"\t\n\r\\")  # which look's lines are made of
    trace.event(CONTEXT_CREATE, DRIVER, address=1)
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB, stack=3)
    trace.event(ALLOC, FRAMEWORK, address=1 << 32, size=8 * MIB, detail=64 * MIB, total=8 * MIB, stack=1)
    trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + 8 * MIB, size=MIB, detail=64 * MIB, total=9 * MIB, stack=2)
    trace.look(1, b"R\t0\t20480\t" + name + b"\t" + name + b"\n"
                  b"M\t0\t20480\t" + name + b"\t\n"
                  b"T\tparameter\t0\t" + name + b"\t4294967296\t8388608\t4294967296\t8388608\t" + name + b"\t" + name + b"\t0\t\n"
                  b"E\t" + name + b"\n")
    trace.event(LOOK_EVENT, detail=1)
    trace.event(MARK, detail=1)
    trace.event(MARK, detail=2)
    trace.event(OOM, FRAMEWORK, size=1 << 40, detail=64 * MIB, total=9 * MIB, stack=1)
    return trace.write(path)


@pytest.fixture
def hostile(tmp_path):
    return hostile_trace(os.fsencode(tmp_path) + b"/\xff\x1b[31m\n" + "é\u202e.vrt".encode())


def run_bytes(*arguments):
    return subprocess.run([str(PROGRAM.resolve()), *arguments], capture_output=True, timeout=60,
                          env={**os.environ, "LC_ALL": "C.UTF-8"}, stdin=subprocess.DEVNULL)


JSON_COMMANDS = [["report"], ["report", "--at", "oom"], ["report", "--at", "end", "--by", "block"], ["timeline"],
                 ["report", "--explain", "parameter"], ["report", "--explain", HOSTILE.decode("latin-1")],
                 ["timeline", "--at", "end"], ["oom"], ["oom", "--at", "oom#1"], ["frag"], ["leaks"], ["steps"], ["annotate"],
                 ["annotate", "{}", "train.py"],
                 ["info"], ["info", "--events"], ["info", "--events", "--stacks"], ["check", "--max-peak", "1"], ["diff"]]


def words(command, trace):
    if "{}" in command:
        return [trace if word == "{}" else word.encode() for word in command]
    return [*(word.encode("latin-1") for word in command), trace, *([trace] if command[0] == "diff" else [])]


def names(command):
    return " ".join(command).encode("latin-1").decode("ascii", "replace")[:30]


@pytest.mark.parametrize("command", JSON_COMMANDS, ids=names)
def test_json_of_a_hostile_trace(command, hostile):
    result = run_bytes(*words(command, hostile), b"--json")
    assert result.returncode == (1 if command[0] == "check" else 0), result.stderr
    assert result.stderr == b""
    text = result.stdout.decode("utf-8", errors="strict")
    assert not {ord(letter) for letter in text} & (UNSAFE - {0x09})
    documents = [json.loads(line) for line in text.splitlines()] if "--events" in command else [json.loads(text)]
    assert documents
    json.dumps(documents, ensure_ascii=False).encode("utf-8", errors="strict")  # no lone surrogate in any string


def test_json_keeps_what_can_be_told(hostile):
    seen = json.loads(run_bytes(b"info", b"--json", hostile).stdout)
    assert "\ufffd" in seen["trace"]["host"]
    assert "\x1b]0;owned\x07\x1b[31m" in seen["trace"]["host"]  # the header's bytes, as they are
    assert seen["trace"]["file"].endswith("/\ufffd\x1b[31m\né\u202e.vrt")
    assert '"quoted" \\u0000 \\' in seen["devices"][0]["name"]
    assert "café 人" in seen["devices"][0]["name"]


@pytest.mark.parametrize("command", JSON_COMMANDS, ids=names)
def test_text_of_a_hostile_trace(command, hostile):
    result = run_bytes(*words(command, hostile))
    assert result.returncode == (1 if command[0] == "check" else 0), result.stderr
    text = result.stdout.decode("utf-8", errors="strict")
    assert text and not {ord(letter) for letter in text} & (UNSAFE - {0x09} if "--stacks" in command else UNSAFE)


def test_verify_of_a_hostile_trace(hostile):
    result = run_bytes(b"info", b"--verify", hostile)
    assert not set(result.stdout.decode("utf-8", errors="strict")) & {chr(code) for code in UNSAFE}


BAD_WORD = b"x\x1b]0;owned\x07\x9b\xff\r\n\xe2\x80\xae"


@pytest.mark.parametrize("arguments", [
    [BAD_WORD], [b"--" + BAD_WORD], [b"help", BAD_WORD], [b"report", b"--" + BAD_WORD], [b"report", BAD_WORD + b".vrt"],
    [b"report", b"--by", BAD_WORD, b"TRACE"], [b"report", b"--width", BAD_WORD], [b"report", b"--rules", BAD_WORD, b"TRACE"],
    [b"report", b"--at", BAD_WORD, b"TRACE"], [b"report", b"--at", b"mark:" + BAD_WORD, b"TRACE"],
    [b"report", b"--at", b"step:" + BAD_WORD, b"TRACE"], [b"oom", b"--at", BAD_WORD, b"TRACE"], [b"annotate", b"TRACE", BAD_WORD],
    [b"lib", BAD_WORD],
    [b"check", b"--max-peak", BAD_WORD, b"TRACE"], [b"check", b"--baseline", BAD_WORD, b"TRACE"],
    [b"diff", b"TRACE", BAD_WORD], [b"diff", b"TRACE", b"TRACE@" + BAD_WORD], [b"report", b"-o", b"none/" + BAD_WORD, b"TRACE"],
    [b"report", b"FOLDER"], [b"report", b"NOTES"], [b"run", BAD_WORD], [b"run", b"/" + BAD_WORD], [b"run", b"--" + BAD_WORD, b"true"],
    [b"run", b"-o", b"none" + BAD_WORD + b"/x", b"true"],
], ids=lambda arguments: str(arguments[:2])[:40])
def test_messages_are_safe(arguments, hostile, tmp_path):
    folder = os.fsencode(tmp_path) + b"/" + BAD_WORD
    os.mkdir(folder)
    notes = os.fsencode(tmp_path) + b"/notes" + BAD_WORD
    with open(notes, "w") as file:
        file.write("notes\n" * 9999)
    places = {b"TRACE": hostile, b"FOLDER": folder, b"NOTES": notes}
    result = run_bytes(*(places.get(word, word.replace(b"TRACE@", hostile + b"@")) for word in arguments))
    assert result.returncode in (2, 3, 4, 126, 127)
    text = result.stderr.decode("utf-8", errors="strict")
    assert text.startswith("vramtrace") and text.count("\n") == 1
    assert not {ord(letter) for letter in text} & UNSAFE


def test_messages_of_rules_are_safe(tmp_path):
    rules = tmp_path / "rules"
    rules.write_bytes(b"rule " + BAD_WORD.replace(b"\r\n", b"") + b"\n    " + BAD_WORD.replace(b"\r\n", b"") + b"\n")
    result = run_bytes(b"report", b"--rules", os.fsencode(rules), os.fsencode(write_trace(tmp_path / "x.vrt")))
    assert result.returncode == 2
    text = result.stderr.decode("utf-8", errors="strict")
    assert text.count("\n") == 1 and not {ord(letter) for letter in text} & UNSAFE


def test_long_path_keeps_its_reason(tmp_path):
    path = str(tmp_path) + "/x" * 900
    result = run("report", path)
    assert result.returncode == 3 and "No such file" in result.stderr


def test_gpus_that_differ(tmp_path):
    """Said in every view: which GPU of a process holds much more than another, and of what."""
    trace = TraceFile()
    trace.process([b"python", b"train.py"], b"/home", b"/bin/python")
    for device, size in ((0, 96), (1, 24)):
        trace.event(ALLOC, DRIVER, address=(1 + device) << 32, size=size * MIB, device=device)
    trace.write(tmp_path / "two.vrt")
    said = ("imbalance: GPU 0 peaks at 96 MiB, GPU 1 at 24 MiB; largest difference: unknown, 96 MiB against 24 MiB "
            "(vramtrace report --device 0)")
    subprocess.run([PROGRAM, "html", "-o", tmp_path / "page.html", tmp_path / "two.vrt"], check=True, capture_output=True)
    head = json.loads(re.search(r'id="vramtrace-page"[^>]*>(.*?)</script>', (tmp_path / "page.html").read_text(), re.DOTALL)[1])
    for text in (run("report", tmp_path / "two.vrt").stdout, *(" ".join(trace["verdict"]) for trace in head["traces"])):
        assert said in " ".join(text.split())
    one = run("report", "--device", "0", tmp_path / "two.vrt").stdout
    assert "imbalance" not in one
