"""The command line: every wrong use gives one clear line on stderr and its exit status.

Needs VRAMTRACE_BUILD, the build folder. Runs without a GPU and without PyTorch.
"""

import json
import os
import pathlib
import re
import signal
import stat
import struct
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", "build"))
PROGRAM = BUILD / "analyzer" / "vramtrace"
HEADER_BYTES = 4096


def usual_signals():
    """For a child: what a shell in the background, or nohup, made its children ignore has its default again."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def run(*arguments, env=None, cwd=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("VRAMTRACE_", "LD_PRELOAD"))}
    environment.setdefault("ASAN_OPTIONS", "verify_asan_link_order=0")  # a sanitized build is no reason not to preload
    environment.update(env or {})
    return subprocess.run(
        [str(PROGRAM.resolve()), *map(str, arguments)], capture_output=True, text=True, env=environment, cwd=cwd, timeout=60
    )


def check_refused(result, status, *parts):
    assert result.returncode == status, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("vramtrace")
    for part in parts:
        assert part in lines[0]
    assert result.stdout == ""


def write_trace(path, chunks_end=None, state=2):
    """A header as the recorder writes it, and no events."""
    header = struct.pack("<8sIIIIQQQQ", b"VRAMTRC\n", 3, 3, HEADER_BYTES, 64, 0, 64, HEADER_BYTES, 1)
    header += struct.pack("<IIQQ64s32s", 4711, 1, 1_700_000_000_000_000_000, 1000, b"host", b"0.2.0")
    header += struct.pack("<IIQQQQQQQQ", state, 0, 2_000_000_000, 0, 0, chunks_end or HEADER_BYTES, 0, 0, 0, 0)
    path.write_bytes(header.ljust(HEADER_BYTES, b"\0"))
    return path


@pytest.fixture
def empty_trace(tmp_path):
    return write_trace(tmp_path / "empty.vrt")


READERS = ["report", "timeline", "leaks", "oom", "frag", "info", "steps", "annotate"]


# What is asked for is not there, or is not a trace: 3.


@pytest.mark.parametrize("command", READERS)
def test_no_such_trace(command, tmp_path):
    check_refused(run(command, tmp_path / "none.vrt"), 3, command, "none.vrt", "No such file", "vramtrace run")


@pytest.mark.parametrize("command", READERS)
def test_folder(command, tmp_path):
    check_refused(run(command, tmp_path), 3, str(tmp_path), "folder", "name a trace" if command == "annotate" else "no trace")


@pytest.mark.parametrize("command", READERS)
def test_not_a_trace(command, tmp_path):
    path = tmp_path / "notes.vrt"
    path.write_text("these are notes\n" * 1000)
    check_refused(run(command, path), 3, "notes.vrt", "not a vramtrace trace", "vramtrace run")


@pytest.mark.parametrize("command", READERS)
def test_empty_file(command, tmp_path):
    path = tmp_path / "x.vrt"
    for data in (b"", bytes(100), bytes(100_000)):
        path.write_bytes(data)
        check_refused(run(command, path), 3, "x.vrt is empty: the process ended before anything was recorded", "run it again")


def test_zeros_and_then_something(tmp_path):
    path = tmp_path / "x.vrt"
    path.write_bytes(bytes(100_000) + b"x")
    check_refused(run("info", path), 3, "not a vramtrace trace")


@pytest.mark.parametrize("command", READERS)
def test_cut_within_the_header(command, empty_trace):
    empty_trace.write_bytes(empty_trace.read_bytes()[:100])
    check_refused(run(command, empty_trace), 3, "empty.vrt", "cut off", "copy it again")


def test_newer_format(empty_trace):
    data = bytearray(empty_trace.read_bytes())
    data[8:16] = struct.pack("<II", 99, 99)
    empty_trace.write_bytes(data)
    check_refused(run("report", empty_trace), 3, "empty.vrt")


def test_old_format(empty_trace):
    data = bytearray(empty_trace.read_bytes())
    data[8:16] = struct.pack("<II", 1, 1)
    empty_trace.write_bytes(data)
    for command in READERS:
        check_refused(run(command, empty_trace), 3, command,
                      "empty.vrt: written by vramtrace 0.2.0 in format 1, and this vramtrace reads format 3: read it with the version that")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_trace(empty_trace):
    empty_trace.chmod(0)
    check_refused(run("report", empty_trace), 3, "Permission denied")


def test_pipe_is_not_read_for_ever(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    check_refused(run("report", path), 3, "pipe")


def test_one_unreadable_of_two(empty_trace, tmp_path):
    result = run("report", "--each", tmp_path / "none.vrt", empty_trace)
    assert result.returncode == 3
    assert "none.vrt" in result.stderr
    assert "The trace is empty" in result.stdout


# A trace that is short or has nothing in it is no failure, and is said.


def test_truncated_trace(tmp_path):
    path = write_trace(tmp_path / "short.vrt", chunks_end=1 << 20)
    result = run("report", path)
    assert result.returncode == 0, result.stderr
    assert "damaged" in result.stdout.splitlines()[0] + result.stdout.splitlines()[1]


@pytest.mark.parametrize("arguments", [["report"], ["timeline"], ["info"], ["info", "--events"], ["info", "--verify"],
                                       ["report", "--json"], ["info", "--json"], ["report", "--by", "line"],
                                       ["oom"], ["oom", "--json"], ["frag"], ["frag", "--json"],
                                       ["annotate"], ["annotate", "--json"]])
def test_trace_without_events(empty_trace, arguments):
    result = run(*arguments, empty_trace)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_killed_before_any_event(tmp_path):
    result = run("report", write_trace(tmp_path / "killed.vrt", state=1))
    assert result.returncode == 0
    assert "killed, or still running" in result.stdout.splitlines()[0]
    assert "no: incomplete, the process was killed" in run("info", tmp_path / "killed.vrt").stdout


def test_size_is_what_is_on_the_disk(empty_trace):
    with open(empty_trace, "r+b") as file:
        file.truncate(64 << 20)  # a hole
    size = next(line for line in run("info", empty_trace).stdout.splitlines() if line.startswith("size"))
    assert " on disk" in size.split("64 MiB, ")[1]
    seen = json.loads(run("info", "--json", empty_trace).stdout)["trace"]
    assert seen["file_bytes"] == 64 << 20
    assert seen["disk_bytes"] == os.stat(empty_trace).st_blocks * 512


# Wrong use: 2.


def test_no_command_is_wrong_use_and_prints_help():
    result = run()
    assert (result.returncode, result.stdout, result.stderr) == (2, "", run("help").stdout)


@pytest.mark.parametrize("word,nearest", [("reprot", "report"), ("time", "timeline"), ("inf", "info"), ("runs", "run")])
def test_unknown_command_suggests(word, nearest):
    check_refused(run(word), 2, f"unknown command '{word}'; did you mean vramtrace {nearest}?")
    check_refused(run("help", word), 2, f"unknown command '{word}'; did you mean vramtrace {nearest}?")


@pytest.mark.parametrize("word", ["--versoin", "--verison", "--Version", "--versions", "version", "-version"])
def test_misspelt_version(word):
    check_refused(run(word), 2, f"'{word}'; did you mean vramtrace --version?")
    assert run("-V").stdout == run("--version").stdout


def test_unknown_command():
    check_refused(run("frobnicate"), 2, "frobnicate", "vramtrace help")


def test_trace_for_a_command(empty_trace):
    check_refused(run(empty_trace), 2, f"vramtrace report {empty_trace}")


def test_option_before_the_command():
    check_refused(run("--json", "report"), 2, "--json", "COMMAND")


@pytest.mark.parametrize(
    "command,option,nearest", [("report", "--jsn", "--json"), ("report", "--colour", "--color"),
                               ("info", "--verfiy", "--verify"), ("timeline", "--widht=90", "--width")]
)
def test_unknown_option_suggests(command, option, nearest, empty_trace):
    check_refused(run(command, option, empty_trace), 2, option.split("=")[0], nearest)


def test_unknown_option(empty_trace):
    check_refused(run("report", "--frobnicate", empty_trace), 2, "--frobnicate", "vramtrace help report")
    check_refused(run("info", "--at", "end", empty_trace), 2, "--at")


@pytest.mark.parametrize(
    "option,value,part",
    [
        ("--by", "colour", "category, module, kind, owner, line, stack, op, block or holder"),
        ("--color", "sometimes", "auto, always or never"),
        ("--width", "wide", "40 to 1000"),
        ("--width", "3", "40 to 1000"),
        ("--top", "0", "from 1"),
        ("--top", "5x", "'5x'"),
        ("--device", "-1", "from 0"),
        ("--device", "99999999999999999999", "from 0"),
        ("--device", "7", "device 7"),
        ("--at", "yesterday", "mark:NAME"),
        ("--at", "mark:x", "no marks"),
        ("--at", "step:1", "no step 1"),
        ("--at", "oom", "out-of-memory"),
        ("--at", "1h", "after the end"),
        ("--rules", "/none/rules", "/none/rules"),
    ],
)
def test_bad_value(option, value, part, empty_trace):
    check_refused(run("report", option, value, empty_trace), 2, part)
    check_refused(run("report", f"{option}={value}", empty_trace), 2, part)


def test_missing_value(empty_trace):
    check_refused(run("report", empty_trace, "--by"), 2, "--by needs a value")


def test_value_for_a_flag(empty_trace):
    check_refused(run("report", "--json=yes", empty_trace), 2, "--json takes no value")


def test_stacks_without_events(empty_trace):
    check_refused(run("info", "--stacks", empty_trace), 2, "--events")


@pytest.mark.parametrize("option", ["--json", "--events"])
def test_verify_goes_alone(option, empty_trace):
    check_refused(run("info", "--verify", option, empty_trace), 2, "--verify", option)


@pytest.mark.parametrize("command,part", [("leaks", "report --at MOMENT"), ("steps", "report --at step:N"),
                                          ("check", "report --at MOMENT"), ("info", "report --at MOMENT"), ("diff", "@step:2")])
def test_at_where_there_is_no_moment(command, part, empty_trace):
    check_refused(run(command, "--at", "peak", empty_trace), 2, "--at is not available", part)
    for words in (["--at=peak"], ["-t", "peak"], ["-tpeak"]):
        assert run(command, *words, empty_trace).stderr == run(command, "--at", "peak", empty_trace).stderr


@pytest.mark.parametrize("command,option,other", [("leaks", "--by", "report"), ("timeline", "--max-peak", "check"),
                                                  ("lib", "--json", "top"), ("report", "--verify", "info")])
def test_option_of_another_command(command, option, other, empty_trace):
    check_refused(run(command, option, *([] if command == "lib" else [empty_trace])), 2, option, f"`vramtrace {other}`")


def test_lib_takes_nothing():
    check_refused(run("lib", "x"), 2, "'x'")


def test_file_named_like_an_option(empty_trace, tmp_path):
    odd = empty_trace.rename(tmp_path / "--odd.vrt")
    result = run("report", "--", odd.name, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


# Help.


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["-h"]])
def test_help_lists_commands(arguments):
    """On one screen: each command has a line, and what it can do is shown by examples that work."""
    result = run(*arguments)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert len(lines) <= 30 and all(len(line) <= 80 for line in lines)
    listed = [re.match(r"(\w*) +([a-z]+)  +\w", line) for line in lines[2:lines.index("", 2)]]
    assert [match[2] for match in listed] == COMMANDS
    assert [match[1] for match in listed if match[1]] == ["Record", "Analyze", "Compare", "Integrate"]
    examples = re.findall(r"vramtrace (\w+)", "\n".join(lines[lines.index("", 2):]))
    assert {"run", "report", "diff", "export"} <= set(examples)


ROOT = pathlib.Path(__file__).parents[2]
# Those of the table itself, command/command.h.
COMMANDS = re.findall(r'\bX\(\w+, \w+, "(\w+)", vt_command_', (ROOT / "analyzer" / "command" / "command.h").read_text())


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "help"])
def test_help_of_a_command(command):
    result = run("help", command)
    assert result.returncode == 0
    assert result.stdout.startswith(f"vramtrace {command}")
    assert run(command, "--help").stdout == run(command, "-h").stdout == result.stdout


@pytest.mark.parametrize("short,long", [("-n", "--top"), ("-t", "--at"), ("-o", "--out"), ("-h", "--help")])
def test_a_letter_means_the_same_everywhere(short, long):
    helps = {command: run("help", command).stdout for command in COMMANDS if command not in ("run", "dryrun")}
    assert any(f"{short}, {long}" in text for text in helps.values())
    for command, text in helps.items():
        assert (f"{short}, {long} " in text) == (f"{long} " in text), command
        assert text.count(f"  {short}, ") == text.count(f"{short}, {long} "), command


def test_letters(empty_trace):
    for words, same in ((["-n", "3"], ["--top", "3"]), (["-n3"], ["--top=3"]), (["-t", "end"], ["--at", "end"]), (["-tend"], ["--at=end"])):
        assert run("report", "--json", *words, empty_trace).stdout == run("report", "--json", *same, empty_trace).stdout
    check_refused(run("report", empty_trace, "-n", "x"), 2, "--top must be a number")
    check_refused(run("report", empty_trace, "-n"), 2, "-n needs a value: -n N")
    check_refused(run("top", "-n", "1"), 2, "--top is an option of `vramtrace report`, not of `vramtrace top`")


def test_version():
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("vramtrace 0.")


# run


@pytest.fixture
def library(tmp_path):
    """Something to preload that does nothing: the loader warns of what is no library, so a real one."""
    path = tmp_path / "libempty.so"
    compiler = os.environ.get("CC", "cc").split()
    result = subprocess.run([*compiler, "-shared", "-x", "c", "/dev/null", "-o", str(path)], capture_output=True)
    if result.returncode:
        pytest.skip("no compiler")
    return {"VRAMTRACE_LIBRARY": str(path)}


@pytest.mark.parametrize("dashes", [[], ["--"]])
def test_run_needs_no_dashes(dashes, library, tmp_path):
    show = ["sh", "-c", 'echo "$VRAMTRACE_OUT|$VRAMTRACE_QUIET|$*"', "--", "--epochs", "3", "-o", "mine"]
    result = run("run", *dashes, *show, env=library)
    assert (result.returncode, result.stdout) == (0, "||--epochs 3 -o mine\n")
    assert result.stderr == "vramtrace: no CUDA call was seen: no trace\n"
    result = run("run", "-o", "x.vrt", "--quiet", *dashes, *show, env=library, cwd=tmp_path)
    assert result.stdout == f"{tmp_path}/x.vrt|1|--epochs 3 -o mine\n"
    for words in (["--quiet", "0"], ["--quiet=0"], ["--quiet", "off"]):
        result = run("run", *words, *dashes, *show, env=library)
        assert result.stdout == f"|{words[-1].split('=')[-1]}|--epochs 3 -o mine\n"


def test_run_dashes_of_the_command_are_its_own(library):
    assert run("run", "sh", "-c", 'echo "$@"', "sh", "--", "x", env=library).stdout == "-- x\n"
    assert run("run", "--", "sh", "-c", 'echo "$@"', "sh", "--help", "--", env=library).stdout == "--help --\n"


def test_run_leaves_signals_alone(library):
    """Ignored ones would be inherited: a command that counts on SIGPIPE would go on for ever."""
    shown = [subprocess.run(words, capture_output=True, text=True, env={**os.environ, **library}).stdout
             for words in (["grep", "SigIgn", "/proc/self/status"],
                           [str(PROGRAM.resolve()), "run", "grep", "SigIgn", "/proc/self/status"])]
    assert shown[0] == shown[1]


def test_run_needs_a_command(library):
    check_refused(run("run", env=library), 2, "which command?")
    check_refused(run("run", "--", env=library), 2, "which command?")
    check_refused(run("run", "-o", "x.vrt", env=library), 2, "which command?")


def test_run_unknown_option(library):
    check_refused(run("run", "--ouput", "x", "--", "true", env=library), 2, "--ouput")
    check_refused(run("run", "--frobnicate", "--", "true", env=library), 2, "--frobnicate", "help run")


def test_run_option_without_value(library):
    check_refused(run("run", "-o", "--", "true", env=library), 2, "-o needs a value")


def test_run_command_not_found(library):
    check_refused(run("run", "--", "no-such-command-here", env=library), 127, "no-such-command-here", "not found")
    check_refused(run("run", "--", "/no/such/command", env=library), 127, "/no/such/command", "No such file")


def test_run_command_not_executable(library, tmp_path):
    path = tmp_path / "data"
    path.write_text("x")
    path.chmod(stat.S_IRUSR)
    check_refused(run("run", "--", path, env=library), 126, "data", "Permission denied")


def test_run_folder_missing(library, tmp_path):
    check_refused(run("run", "-o", tmp_path / "none" / "x.vrt", "--", "true", env=library), 4, "no folder")


def test_run_makes_what_ends_with_a_slash(library, tmp_path):
    for _ in range(2):  # as two ranks do
        assert run("run", "-o", f"{tmp_path}/traces/", "--", "true", env=library).returncode == 0
    check_refused(run("run", "-o", f"{tmp_path}/none/traces/", "--", "true", env=library), 4, "no folder")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["traces"]


def test_a_message_is_one_write():
    """All ranks of a job may say it at once. Of a pipe with O_DIRECT each read takes one write."""
    ours, theirs = os.pipe2(os.O_DIRECT)
    try:
        subprocess.run([PROGRAM, "report", "/no/such/trace"], stderr=theirs, timeout=60)
        said = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert said.startswith("vramtrace report: ") and said.endswith("\n")


@pytest.mark.parametrize("option", ["--local_rank=1", "--local-rank=0"])
def test_a_launcher_before_the_command(option):
    check_refused(run(option, "run", "true"), 2, option, "--no_local_rank")


def test_run_library_missing():
    check_refused(run("run", "--", "true", env={"VRAMTRACE_LIBRARY": "/none.so"}), 2, "VRAMTRACE_LIBRARY", "/none.so")
    check_refused(run("lib", env={"VRAMTRACE_LIBRARY": "/none.so"}), 2, "/none.so")


@pytest.mark.parametrize("status", [0, 3, 77])
def test_run_exits_as_its_command(library, status):
    assert run("run", "--", "sh", "-c", f"exit {status}", env=library).returncode == status


def test_run_sets_the_environment(library, tmp_path):
    show = ["sh", "-c", 'echo "$LD_PRELOAD|$VRAMTRACE_OUT|$NVTX_INJECTION64_PATH"']
    path = str(pathlib.Path(library["VRAMTRACE_LIBRARY"]).resolve())
    result = run("run", "-o", "x.vrt", "--", *show, env=library, cwd=tmp_path)
    assert result.stdout.strip() == f"{path}|{tmp_path}/x.vrt|{path}"
    result = run("run", "-ox.vrt", "--", *show, env={**library, "LD_PRELOAD": path, "NVTX_INJECTION64_PATH": "mine"}, cwd=tmp_path)
    assert result.stdout.strip() == f"{path}:{path}|{tmp_path}/x.vrt|mine"
    result = run("run", f"--out={tmp_path}", "--", *show, env=library)
    assert result.stdout.split("|")[1] == str(tmp_path)
    assert run("run", "--", *show, env=library).stdout.split("|")[1] == ""


def test_lib_prints_the_path(library):
    result = run("lib", env=library)
    assert result.returncode == 0
    assert result.stdout.strip() == str(pathlib.Path(library["VRAMTRACE_LIBRARY"]).resolve())


# Looks.


def test_no_colour_but_on_a_terminal(empty_trace):
    assert "\033" not in run("report", empty_trace).stdout
    assert "\033" in run("report", "--color=always", empty_trace).stdout


def test_plain_letters_in_a_plain_locale(empty_trace):
    for command in READERS:
        assert run(command, empty_trace, env={"LC_ALL": "C"}).stdout.isascii()
