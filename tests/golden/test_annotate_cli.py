"""annotate on the command line: which file is meant, when its text is shown, and what a hostile file may hold."""

import json
import os
import shutil
import stat
import struct
import subprocess

import pytest

from test_cli import PROGRAM, check_refused, run
from test_cli_text import HOSTILE, UNSAFE, run_bytes
from trace_file import ALLOC, CODE, DRIVER, FRAMEWORK, TraceFile

MIB = 1 << 20
LINE = 7  # of every frame
LINE_TABLE = bytes([0x80 | 13 << 3 | 7, 0])  # of CPython 3.11: eight instructions on the function's first line


def code(trace, number, file):
    name = b"f"
    trace.record(CODE, struct.pack("<IiHHIII", number, LINE, 11, 0, len(file), len(name), len(LINE_TABLE)) + file + name +
                 LINE_TABLE)


@pytest.fixture
def trace(tmp_path):
    """Blocks of 1, 2, 4, 8 MiB, each of a file of its own, called by main.py."""
    files = ["a/model.py", "b/model.py", "lib/python3.11/site-packages/pkg/tool.py", "tool.py", "main.py"]
    trace = TraceFile()
    trace.process([b"python", b"main.py"], os.fsencode(tmp_path), b"/bin/python")
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB)
    for number, name in enumerate(files, 1):
        code(trace, number, os.fsencode(tmp_path / name))
    for number in range(1, 5):
        trace.stack(number, python=[(number, 0, 0), (5, 0, 0)])
        trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + number * 8 * MIB, size=MIB << (number - 1), detail=64 * MIB,
                    stack=number)
    trace.event(ALLOC, FRAMEWORK, address=(1 << 32) + 48 * MIB, size=3 * MIB, detail=64 * MIB)
    return trace.write(tmp_path / "x.vrt")


def annotate(trace, *arguments, **options):
    result = run("annotate", "--json", trace, *arguments, **options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["devices"][0]


def write(path, text, old=True):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    if old:
        os.utime(path, (1_600_000_000, 1_600_000_000))


def test_files(trace):
    device = annotate(trace)
    assert [(file["name"], file["bytes"] // MIB) for file in device["files"]] == [
        ("tool.py", 8), ("main.py", 4), ("b/model.py", 2), ("a/model.py", 1)]
    # pkg/tool.py is of an installed package: its allocation is its caller's
    assert device["no_line"]["bytes"] == 3 * MIB and device["all"]["bytes"] == 18 * MIB
    main = next(file for file in device["files"] if file["name"] == "main.py")
    assert main["through"]["bytes"] == 15 * MIB and main["through"]["allocations"] == 4
    text = run("annotate", trace, "--top", "2").stdout
    assert "… 2 more" in text and "no line known" in text


def test_which_file(trace, tmp_path):
    check_refused(run("annotate", trace, "model.py"), 2, "could be 2 files", str(tmp_path / "a/model.py"),
                  str(tmp_path / "b/model.py"))
    check_refused(run("annotate", trace, "odel.py"), 2, "'odel.py'", "tool.py")
    check_refused(run("annotate", trace, "c/model.py"), 2, "'c/model.py'", "main.py")
    check_refused(run("annotate", trace, ""), 2, "''")
    check_refused(run("annotate", trace, "main.py", "tool.py"), 2, "'tool.py'")
    for name, expected in (("a/model.py", "a/model.py"), ("./a/model.py", "a/model.py"), ("tool.py", "tool.py"),
                           ("pkg/tool.py", "lib/python3.11/site-packages/pkg/tool.py"),
                           (tmp_path / "b/model.py", "b/model.py")):
        file, = annotate(trace, name)["files"]
        assert file["file"] == str(tmp_path / expected)
        assert [line["line"] for line in file["lines"]] == [LINE]
    (tmp_path / "b").mkdir()
    write(tmp_path / "b/model.py", b"x\n")
    file, = annotate(trace, "../b/model.py", cwd=tmp_path / "b")["files"]
    assert file["file"] == str(tmp_path / "b/model.py")


def test_a_lone_file_is_of_the_newest_trace(trace, tmp_path):
    trace.rename(tmp_path / "vramtrace.host.1.vrt")
    result = run("annotate", "main.py", cwd=tmp_path)
    assert result.returncode == 0 and "reading vramtrace.host.1.vrt" in result.stderr
    assert f"{tmp_path / 'main.py'}:" in result.stdout.replace("\n  ", " ")
    check_refused(run("annotate", "none.vrt", cwd=tmp_path), 3, "none.vrt", "No such file")


def test_text_of_an_older_file(trace, tmp_path):
    lines = [f"line_{i} = {i}".encode() for i in range(1, 41)]
    write(tmp_path / "main.py", b"\n".join(lines))
    file, = annotate(trace, "main.py")["files"]
    assert (file["source"], file["lines"][0]["text"]) == ("read", "line_7 = 7")
    text = run("annotate", trace, "main.py").stdout
    assert [f"line_{i} =" in text for i in range(1, 41)] == [5 <= i <= 9 for i in range(1, 41)]
    assert text.count("…") == 2
    text = run("annotate", trace, "main.py", "--all").stdout
    assert all(f"line_{i} =" in text for i in range(1, 41)) and "…" not in text


@pytest.mark.parametrize("state,part", [("newer", "changed after the recording"), ("missing", "not available on this machine"),
                                        ("refused", "Source cannot be shown"), ("read", "")])
def test_no_text_of_another_file(trace, tmp_path, state, part):
    path = tmp_path / "main.py"
    if state == "refused":
        os.mkfifo(path)
    elif state == "newer":
        write(path, b"secret\n" * 9, old=False)
    elif state == "read":
        write(path, b"too short\n")
    file, = annotate(trace, "main.py")["files"]
    assert (file["source"], file["lines"][0]["text"]) == (state, None)
    text = run("annotate", trace, "main.py").stdout
    assert part in " ".join(text.split()) and "secret" not in text and "4 MiB" in text


def test_a_link_shows_only_source_files(trace, tmp_path):
    """A link named as a source leads to no other file, but to another source."""
    for name, state in (("shadow", "refused"), ("real.py", "read")):
        write(tmp_path / name, b"secret\n" * 9)
        (tmp_path / "main.py").unlink(missing_ok=True)
        (tmp_path / "main.py").symlink_to(tmp_path / name)
        file, = annotate(trace, "main.py")["files"]
        assert (file["source"], file["lines"][0]["text"]) == (state, "secret" if state == "read" else None)
        assert ("secret" in run("report", trace).stdout) == (state == "read")


def test_no_device_is_opened(trace, tmp_path):
    (tmp_path / "main.py").symlink_to("/dev/full.py")
    for kind in ("mkfifo", "mknod"):
        path = tmp_path / f"{kind}.py"
        if kind == "mkfifo":
            os.mkfifo(path)
        elif os.geteuid() == 0:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        else:
            continue
        (tmp_path / "main.py").unlink()
        (tmp_path / "main.py").symlink_to(path)
        traced = subprocess.run(["strace", "-f", "-e", "trace=open,openat", PROGRAM, "annotate", trace, "main.py"], capture_output=True,
                                text=True) if shutil.which("strace") else None
        file, = annotate(trace, "main.py")["files"]
        assert file["source"] == "refused"
        assert not traced or all("O_PATH" in line for line in traced.stderr.splitlines() if f'"{path}"' in line)


def test_another_users_trace_shows_what_that_user_may_read(trace, tmp_path):
    """Of another user's trace, a file that only the reader may read is not shown."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    write(tmp_path / "main.py", b"secret\n" * 9)
    os.chown(trace, 1234, 1234)
    for folder in [tmp_path, *tmp_path.parents][:-2]:
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    for mode, owner, folder_mode, state in ((0o600, 0, 0o711, "refused"), (0o644, 0, 0o711, "read"), (0o600, 1234, 0o711, "read"),
                                            (0o644, 0, 0o700, "refused")):
        (tmp_path / "main.py").chmod(mode)
        os.chown(tmp_path / "main.py", owner, owner)
        tmp_path.chmod(folder_mode)
        assert annotate(trace, "main.py")["files"][0]["source"] == state, (mode, owner, folder_mode)


def test_without_sources(trace, tmp_path):
    write(tmp_path / "main.py", b"secret\n" * 9)
    for command in (["report"], ["report", "--full"], ["html", "-o", "-"]):
        shown, hidden = (run(*command, *words, trace) for words in ((), ("--no-source",)))
        assert shown.returncode == hidden.returncode == 0 and "secret" not in hidden.stdout
        if command[0] == "report":
            assert "secret" in shown.stdout
        else:  # packed: nine lines less
            assert len(hidden.stdout) < len(shown.stdout)


def test_a_line_that_is_not_known(tmp_path):
    trace = TraceFile()
    trace.code(1, b"/x/main.py", b"f")
    trace.stack(1, python=[(1, 0, 0)])
    trace.event(ALLOC, DRIVER, address=1 << 32, size=64 * MIB, stack=1)
    path = trace.write(tmp_path / "x.vrt")
    file, = annotate(path, "main.py")["files"]
    assert [(line["line"], line["bytes"]) for line in file["lines"]] == [(0, 64 * MIB)]
    assert "   ?  64 MiB" in run("annotate", path, "main.py").stdout


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_hostile_source(trace, tmp_path, width):
    write(tmp_path / "main.py", b"\n".join([HOSTILE.replace(b"\n", b" ").replace(b"\r", b" "), b"", b"\t\tx" * 5000, b"\x0e1" * 9,
                                            b"y" * 10_000, "\U0001f600".encode() * 50, HOSTILE, b"\x0e" * 3, b"end"]))
    for arguments in ([], [b"--all"], [b"--color", b"always", b"--all"], [b"--json"]):
        result = run_bytes(b"annotate", os.fsencode(trace), b"main.py", b"--width", width.encode(), *arguments)
        assert result.returncode == 0, result.stderr
        text = result.stdout.decode("utf-8", errors="strict")
        assert not {ord(letter) for letter in text} & (UNSAFE - {0x1B} if b"always" in arguments else UNSAFE - {0x09})
        if b"--json" in arguments:
            json.loads(text)
        elif b"always" not in arguments:
            assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= int(width) + 20
