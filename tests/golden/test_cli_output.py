"""Where commands write: -o FILE, which is whole or not there; full disks; and the exit status that tells."""

import json
import os
import resource
import signal
import stat
import subprocess

import pytest

from test_cli import PROGRAM, check_refused, run, usual_signals, write_trace

# What prints something about a trace without events.
PRINTERS = [["report"], ["report", "--json"], ["timeline"], ["timeline", "--json"], ["leaks"], ["leaks", "--json"], ["oom"],
            ["oom", "--json"], ["frag"], ["frag", "--json"], ["steps"], ["steps", "--json"], ["annotate"], ["annotate", "--json"], ["info"],
            ["info", "--json"],
            ["info", "--verify"], ["diff"], ["diff", "--json"], ["check", "--json", "--max-peak", "1"]]


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "x.vrt")


def words(command, trace):
    return [*command, trace, *([trace] if command[0] == "diff" else [])]


def run_into(stdout, arguments, **options):
    return subprocess.run([str(PROGRAM.resolve()), *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, text=True,
                          timeout=60, **options)


# A signal: nothing is left.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_part(number, trace, tmp_path):
    os.mkfifo(tmp_path / "rules")  # opening it waits for a writer
    started = subprocess.Popen([PROGRAM.resolve(), "report", "--rules", tmp_path / "rules", "-o", tmp_path / "out", trace],
                               preexec_fn=usual_signals)
    while not list(tmp_path.glob("out.*")):
        assert started.poll() is None
    started.send_signal(number)
    assert started.wait(timeout=60) == -number
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rules", "x.vrt"]


def test_an_ignored_signal_stays_ignored(trace, tmp_path):
    os.mkfifo(tmp_path / "rules")
    started = subprocess.Popen([PROGRAM.resolve(), "report", "--rules", tmp_path / "rules", "-o", tmp_path / "out", trace],
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    while not list(tmp_path.glob("out.*")):
        assert started.poll() is None
    started.send_signal(signal.SIGHUP)
    (tmp_path / "rules").write_text("")
    assert started.wait(timeout=60) == 0 and (tmp_path / "out").exists()


# A disk that is full: 4.


@pytest.mark.parametrize("command", PRINTERS, ids=" ".join)
def test_full_disk(command, trace):
    with open("/dev/full", "w") as full:
        result = run_into(full, words(command, trace))
    assert result.returncode == 4
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"vramtrace {command[0]}: cannot write to the standard output: No space left on device; free some space")
    result = run(*words(command, trace), "-o", "/dev/full")
    assert (result.returncode, result.stdout) == (4, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"vramtrace {command[0]}: cannot write /dev/full: No space left on device")


@pytest.mark.parametrize("command", [["help"], ["help", "report"], ["help", "run"], ["run", "--help"], ["report", "--help"],
                                     ["--help"], ["--version"], ["lib"]], ids=" ".join)
def test_full_disk_without_a_trace(command):
    with open("/dev/full", "w") as full:
        result = run_into(full, command)
    assert result.returncode == 4
    assert "No space left on device" in result.stderr and len(result.stderr.splitlines()) == 1


def test_full_disk_with_many_traces_is_said_once(trace):
    with open("/dev/full", "w") as full:
        result = run_into(full, ["report", "--each", trace, trace, trace])
    assert result.returncode == 4 and len(result.stderr.splitlines()) == 1


def test_reader_that_goes_away(trace):
    for command in PRINTERS:
        line = " ".join(map(str, words(command, trace)))
        result = subprocess.run(["bash", "-c", f"{PROGRAM.resolve()} {line} | true; echo ${{PIPESTATUS[0]}}"],
                                capture_output=True, text=True)
        assert (result.stdout.strip(), result.stderr) == ("0", ""), command


# -o FILE


@pytest.mark.parametrize("command", PRINTERS, ids=" ".join)
@pytest.mark.parametrize("option", ["-o", "--out"])
def test_output_file(command, option, trace, tmp_path):
    printed = run(*words(command, trace))
    for argument in ([option, "out"], [f"{option}out" if option == "-o" else f"{option}=out"]):
        result = run(*words(command, trace), *argument, cwd=tmp_path)
        assert (result.returncode, result.stdout, result.stderr) == (printed.returncode, "", "")
        assert (tmp_path / "out").read_text() == printed.stdout
        assert sorted(os.listdir(tmp_path)) == ["out", "x.vrt"]
    assert run(*words(command, trace), option, "-").stdout == printed.stdout


def test_output_file_of_lib(tmp_path):
    printed = run("lib")
    if printed.returncode == 0:
        run("lib", "-o", tmp_path / "out")
        assert (tmp_path / "out").read_text() == printed.stdout


def test_output_file_of_several_traces(trace, tmp_path):
    run("report", "--each", "--json", trace, trace, "-o", "out", cwd=tmp_path)
    lines = (tmp_path / "out").read_text().splitlines()
    assert [json.loads(line)["format"] for line in lines] == ["vramtrace.report/2"] * 2


def test_output_file_has_usual_rights(trace, tmp_path):
    old = os.umask(0o027)
    try:
        run("report", trace, "-o", tmp_path / "new")
        (tmp_path / "old").touch()
        (tmp_path / "old").chmod(0o604)
        run("report", trace, "-o", tmp_path / "old")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o604


def test_output_through_a_link(trace, tmp_path):
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    run("report", trace, "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == run("report", trace).stdout


def test_reader_that_goes_away_within_a_long_output(trace):
    """The page is longer than what stdio and the pipe hold: the writer notices long before its end."""
    result = subprocess.run(["bash", "-c", f"{PROGRAM.resolve()} html -o - {trace} | head -c 10 | wc -c; echo ${{PIPESTATUS[0]}}"],
                            capture_output=True, text=True)
    assert (result.stdout.split(), result.stderr) == (["10", "0"], "")


def test_output_to_a_device_or_pipe(trace, tmp_path):
    assert run("report", trace, "-o", "/dev/null").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    assert run("report", trace, "-o", pipe).returncode == 0
    assert reader.communicate(timeout=30)[0] == run("report", trace).stdout


def test_failed_write_leaves_what_was_there(trace, tmp_path):
    """A limit on the size of files stands for a full disk."""
    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    for before in (None, "before"):
        if before:
            (tmp_path / "out").write_text(before)
        result = run_into(subprocess.PIPE, ["report", "--json", trace, "-o", "out"], preexec_fn=small, cwd=tmp_path)
        assert result.returncode == 4, result.stderr
        assert "cannot write out: File too large" in result.stderr and len(result.stderr.splitlines()) == 1
        assert sorted(os.listdir(tmp_path)) == (["out", "x.vrt"] if before else ["x.vrt"])
    assert (tmp_path / "out").read_text() == "before"


def test_failed_command_leaves_what_was_there(trace, tmp_path):
    (tmp_path / "out").write_text("before")
    for arguments, status in ((["report", "none.vrt"], 3), (["report", "--at", "mark:x", "x.vrt"], 2),
                              (["diff", "x.vrt", "none.vrt"], 3)):
        check_refused(run(*arguments, "-o", "out", cwd=tmp_path), status)
        assert (tmp_path / "out").read_text() == "before"
        assert sorted(os.listdir(tmp_path)) == ["out", "x.vrt"]


def test_one_unreadable_of_two_is_written(trace, tmp_path):
    result = run("report", "--each", "none.vrt", "x.vrt", "-o", "out", cwd=tmp_path)
    assert result.returncode == 3
    assert "The trace is empty" in (tmp_path / "out").read_text()


def test_failed_check_is_written(tmp_path):
    trace = write_trace(tmp_path / "x.vrt", state=1)
    result = run("check", "--max-peak", "1", trace, "-o", tmp_path / "out")
    assert (result.returncode, result.stdout) == (1, "")
    assert "--allow-lost" in (tmp_path / "out").read_text()


def test_output_never_replaces_a_trace(trace, tmp_path):
    data = trace.read_bytes()
    other = write_trace(tmp_path / "other.vrt")
    for name in (trace, other):
        check_refused(run("report", trace, "-o", name), 2, name.name, "overwrite a trace")
    assert trace.read_bytes() == data


def test_output_that_cannot_be(trace, tmp_path):
    check_refused(run("report", trace, "-o", tmp_path / "none" / "out"), 4, "none/out", "No such file", "create its folder")
    check_refused(run("report", trace, "-o", tmp_path), 4, "is a folder", f"-o {tmp_path}/report.txt")
    check_refused(run("html", trace, "-o", tmp_path), 4, "is a folder", f"-o {tmp_path}/report.html")
    check_refused(run("report", trace, "-o", ""), 2, "-o needs")
    check_refused(run("report", trace, "-o"), 2, "-o needs a value: -o FILE")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_without_permission(trace, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    check_refused(run("report", trace, "-o", folder / "out"), 4, "closed/out", "Permission denied")


def test_no_colour_in_a_file(trace, tmp_path):
    run("report", trace, "-o", tmp_path / "out")
    assert "\033" not in (tmp_path / "out").read_text()


# JSON of the timeline


def test_timeline_json(trace):
    seen = json.loads(run("timeline", "--json", trace).stdout)
    assert seen["format"] == "vramtrace.timeline/2"
    assert seen["trace"]["pid"] == 4711 and seen["devices"] == [] and seen["marks"] == []
