"""The command lines of steps, diff and check; and what check, export and html say."""

import json
import os
import re
import xml.etree.ElementTree

import pytest

import trace_file
from test_cli import check_refused, run, write_trace


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "empty.vrt")


@pytest.fixture
def killed(tmp_path):
    return write_trace(tmp_path / "killed.vrt", state=1)


def words(command, trace):
    """The least that each command needs."""
    return {"steps": ["steps", trace], "diff": ["diff", trace, trace], "check": ["check", "--max-peak", "1GiB", trace]}[command]


COMMANDS = ["steps", "diff", "check"]


@pytest.mark.parametrize("command", COMMANDS)
def test_trace_without_events(command, trace):
    result = run(*words(command, trace))
    told = f"vramtrace check: {trace}: all limits are met; no GPU memory was recorded\n" if command == "check" else ""
    assert (result.returncode, result.stderr) == (0, told)
    assert json.loads(run(*words(command, trace), "--json").stdout)["format"] == f"vramtrace.{command}/2"
    assert run(*words(command, trace), env={"LC_ALL": "C"}).stdout.isascii()


@pytest.mark.parametrize("command", COMMANDS)
def test_unreadable(command, tmp_path):
    check_refused(run(*words(command, tmp_path / "none.vrt")), 3, command, "none.vrt", "No such file")
    check_refused(run(*words(command, tmp_path)), 3, str(tmp_path), "folder")
    notes = tmp_path / "notes.vrt"
    notes.write_text("these are notes\n" * 1000)
    check_refused(run(*words(command, notes)), 3, "notes.vrt")


@pytest.mark.parametrize("command,option", [("steps", "--top"), ("diff", "--at"), ("check", "--by"), ("report", "--all"),
                                            ("report", "--max-peak"), ("diff", "--baseline")])
def test_options_of_other_commands(command, option, trace):
    arguments = words(command, trace) if command in COMMANDS else [command, trace]
    check_refused(run(*arguments, option, "1"), 2, option)


# diff


@pytest.mark.parametrize("count", [0, 3])
def test_diff_takes_two(count, trace):
    check_refused(run("diff", *[trace] * count), 2, "two traces")


def test_diff_of_blocks(trace):
    check_refused(run("diff", "--by", "block", trace, trace), 2, "blocks")


@pytest.mark.parametrize("moment,part", [("step:1", "no step 1"), ("mark:x", "no marks"), ("oom", "out-of-memory"),
                                         ("yesterday", "mark:NAME"), ("", "mark:NAME"), ("1h", "after the end")])
def test_diff_bad_moment(moment, part, trace):
    check_refused(run("diff", trace, f"{trace}@{moment}"), 2, trace.name, part)


def test_diff_names_the_file_that_is_missing(trace, tmp_path):
    check_refused(run("diff", trace, tmp_path / "none.vrt@step:1"), 3, f"{tmp_path}/none.vrt", "No such file")


@pytest.mark.parametrize("name", ["a@b.vrt", "a@end.vrt", "@.vrt", "a@end"])
def test_diff_of_a_file_with_an_at(name, trace, tmp_path):
    trace.rename(tmp_path / name)
    for moment in ("", "@peak", "@end"):
        result = run("diff", f"{name}{moment}", name, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert f"{name} " in result.stdout


def test_diff_is_of_the_whole_name_first(trace, tmp_path):
    other = write_trace(tmp_path / "empty.vrt@end", state=1)
    seen = json.loads(run("diff", "--json", trace, other).stdout)
    assert [seen[side]["trace"]["state"] for side in "ab"] == ["complete", "recording"]


def test_diff_tells_what_is_lost(trace, killed):
    result = run("diff", trace, killed)
    assert "killed or still runs" in result.stdout


# check


def test_check_of_nothing(trace):
    check_refused(run("check", trace), 2, "nothing to check", "--max-peak")
    check_refused(run("check", "--allow-lost", trace), 2, "nothing to check")
    check_refused(run("check", "--max-peak", "1", "--tolerance", "1%", trace), 2, "--baseline")


@pytest.mark.parametrize("size", ["0", "512", "20GiB", "20 GiB", "1.5G", "1.5gb", "3kB", "7 TB", ".5M", "20."])
def test_check_sizes(size, trace):
    assert run("check", "--max-peak", size, trace).returncode == 0


@pytest.mark.parametrize("size", ["", "x", "-1", "+1", "1e3", "inf", "nan", "0x10", "1QiB", "GiB", "1 2", "1GiBs", ".", "2%",
                                  "1KiB/step", "99999999999TiB", "9" * 99, "1/2"])
def test_check_bad_sizes(size, trace):
    check_refused(run("check", f"--max-peak={size}", trace), 2, "--max-peak takes a size", f"'{size}'")


@pytest.mark.parametrize("option", ["--max-unknown", "--max-cached", "--tolerance"])
def test_check_parts(option, trace):
    assert run("check", option, "2.5%", "--baseline", trace, trace).returncode == 0
    check_refused(run("check", option, "2 percent", "--baseline", trace, trace), 2, option, "2%")


@pytest.mark.parametrize("size", ["0", "64KiB", "64KiB/step", "1.5 MiB/step"])
def test_check_leak_sizes(size, trace):
    assert run("check", "--max-leak", size, trace).returncode == 0  # no device, nothing to judge
    check_refused(run("check", "--max-leak", size + "/s", trace), 2, "--max-leak", "64KiB/step")
    check_refused(run("check", "--max-leak", "2%", trace), 2, "--max-leak", "64KiB/step")


@pytest.mark.parametrize("trouble,part", [({"state": 1}, "killed or still runs"), ({"state": 3}, "recording stopped"),
                                          ({"chunks_end": 1 << 20}, "damaged")])
def test_check_of_a_trace_that_lacks_something(trouble, part, trace, tmp_path):
    lossy = write_trace(tmp_path / "lossy.vrt", **trouble)
    for arguments in (["--max-peak", "1GiB", lossy], ["--baseline", lossy, trace]):
        result = run("check", *arguments)
        assert result.returncode == 1
        (line,) = result.stdout.splitlines()
        assert part in line and "--allow-lost" in line and line.startswith(str(arguments[-1]))
        assert ("in the baseline" in line) == (arguments[0] == "--baseline")
        assert result.stderr == ""
        assert json.loads(run("check", "--json", *arguments).stdout)["passed"] is False
        allowed = run("check", "--allow-lost", *arguments)
        assert (allowed.returncode, allowed.stdout) == (0, "")


def test_check_all_and_the_worst(trace, killed, tmp_path):
    result = run("check", "--max-peak", "1", killed, trace)
    assert result.returncode == 1
    result = run("check", "--max-peak", "1", killed, tmp_path / "none.vrt", trace)
    assert result.returncode == 3
    assert len(result.stdout.splitlines()) == 1
    assert ["none.vrt: No such file" in line for line in result.stderr.splitlines()] == [True, False]
    assert result.stderr.endswith(f"{trace}: all limits are met; no GPU memory was recorded\n")
    check_refused(run("check", "--baseline", tmp_path / "none.vrt", trace), 3, "none.vrt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_check_unreadable_baseline(trace, killed):
    killed.chmod(0)
    check_refused(run("check", "--baseline", killed, trace), 3, "Permission denied")


# What check says


MIB = 1 << 20


@pytest.fixture
def used(tmp_path):
    """64 MiB in use at the peak of each of two GPUs, and a name that XML and GitHub would misread."""
    trace = trace_file.TraceFile()
    trace.process([b"python", b"train.py"], b"/work", b"/usr/bin/python")
    for device in (0, 1):
        trace.event(trace_file.ALLOC, trace_file.DRIVER, address=(device + 1) << 32, size=64 * MIB, device=device)
    return trace.write(tmp_path / "a,b: 50% <\"&'\x1bé>.vrt", state=2)


def test_check_says_that_all_limits_hold(used, tmp_path):
    result = run("check", "--max-peak", "80MiB", "--max-unknown", "100%", used)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == (f"vramtrace check: {str(used).replace(chr(27), '?')}: all limits are met: peak 64 MiB of 80 MiB, "
                             "unknown 64 MiB of 64 MiB\n")
    result = run("check", "--baseline", used, "--tolerance", "1MiB", used)
    assert result.stderr.endswith(": all limits are met: peak 64 MiB of 65 MiB allowed by the baseline\n")
    assert run("check", "--json", "--max-peak", "80MiB", used).stderr == ""
    assert run("check", "--max-peak", "1MiB", used).stderr == ""


def test_check_formats_json(used):
    for limit in ("1MiB", "1GiB"):
        assert run("check", "--format", "json", "--max-peak", limit, used).stdout == run("check", "--json", "--max-peak", limit,
                                                                                         used).stdout


def github(text):
    """As GitHub's runner reads a workflow command: ActionCommand.TryParseV2, and its unescaping."""
    command, data = re.fullmatch(r"::([^:]*)::(.*)", text).groups()
    name, _, properties = command.partition(" ")

    def unescape(text, *pairs):
        for code, letter in (("%0D", "\r"), ("%0A", "\n"), *pairs, ("%25", "%")):
            text = text.replace(code, letter)
        return text
    told = dict(part.split("=", 1) for part in properties.split(","))
    return name, {key: unescape(value, ("%3A", ":"), ("%2C", ",")) for key, value in told.items()}, unescape(data)


def test_check_for_github(used, tmp_path):
    result = run("check", "--format", "github", "--max-peak", "1MiB", used, tmp_path / "none.vrt")
    assert result.returncode == 3
    seen = [github(line) for line in result.stdout.splitlines()]
    name = str(used).replace(chr(27), "?")
    text = run("check", "--max-peak", "1MiB", used).stdout.splitlines()
    assert [(f"vramtrace check {name}", f"{name}: {data}") for _, _, data in seen[:2]] == \
        [(properties["title"], line) for (_, properties, _), line in zip(seen, text)]
    assert {kind for kind, *_ in seen} == {"error"} and len(seen) == 3
    assert seen[2][1:] == ({"title": f"vramtrace check {tmp_path}/none.vrt"}, "the trace could not be read")
    assert run("check", "--format", "github", "--max-peak", "1GiB", used).stdout == ""


def test_check_as_junit(used, tmp_path):
    page = tmp_path / "results.xml"
    result = run("check", "--format", "junit", "-o", page, "--max-peak", "1MiB", "--max-unknown", "1GiB", used, tmp_path / "none.vrt")
    assert (result.returncode, result.stdout) == (3, "")
    root = xml.etree.ElementTree.parse(page).getroot()
    assert root.tag == "testsuites"
    suite, unread = root
    name = str(used).replace(chr(27), "?")
    assert (suite.get("name"), unread.get("name")) == (name, f"{tmp_path}/none.vrt")
    for part in (suite, unread, root):
        cases = list(part.iter("testcase"))
        assert (int(part.get("tests")), int(part.get("failures")), int(part.get("errors"))) == \
            (len(cases), len(list(part.iter("failure"))), len(list(part.iter("error"))))
    assert [case.get("name") for case in suite] == ["lost", "GPU 0 peak", "GPU 0 unknown", "GPU 1 peak", "GPU 1 unknown"]
    failed = {case.get("name"): case.find("failure").get("message") for case in suite if case.find("failure") is not None}
    text = run("check", "--max-peak", "1MiB", "--max-unknown", "1GiB", used).stdout.splitlines()
    assert [f"{name}: {failed[f'GPU {device} peak']}" for device in (0, 1)] == text and len(failed) == 2
    assert unread.find("testcase/error").get("message") == "the trace could not be read"


# What html and export say, and html --open


@pytest.mark.parametrize("words,suffix,how", [
    (["perfetto"], ".pftrace", "open it at https://ui.perfetto.dev"), (["pprof"], ".pb.gz", "open it with: go tool pprof -http=: PATH"),
    (["speedscope"], ".json", "open it at https://www.speedscope.app"),
    (["folded"], ".folded", "draw it with: flamegraph.pl --countname bytes PATH > flame.svg"),
    (["memory-viz"], ".pickle", "open it at https://pytorch.org/memory_viz"), (["sqlite"], ".sqlite", "query it with: sqlite3 PATH"),
    (["csv"], "", "one CSV file per table"), (["csv", "--table", "events"], ".csv", "one table")])
def test_export_says_what_it_wrote(words, suffix, how, used, tmp_path):
    path = tmp_path / f"out{suffix}"
    result = run("export", "--format", *words, "-o", path, used)
    assert (result.returncode, result.stdout) == (0, "")
    said = re.fullmatch(r"vramtrace export: wrote (\S+)( \((\d+(?:\.\d+)?) KiB\)| \((\d+) B\))? · (.*)\n", result.stderr)
    assert (said[1], said[5]) == (str(path), how.replace("PATH", str(path)))
    if path.is_file():
        bytes_said = int(said[4]) if said[4] else float(said[3]) * 1024
        assert abs(bytes_said - path.stat().st_size) <= max(6, 0.005 * bytes_said)
    if words == ["folded"]:
        assert run("export", "--format", *words, used).stderr == run("export", "--format", *words, "-o", "-", used).stderr == ""
        assert run("export", "--format", *words, "-o", "/dev/null", used).stderr == ""


@pytest.fixture
def browser(tmp_path):
    """Writes its arguments, one per line."""
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{tmp_path}/opened\nexit ${{BROWSER_STATUS:-0}}\n")
    program.chmod(0o755)
    return program


def test_html_opens_the_page(browser, used, tmp_path):
    page = tmp_path / "a page $HOME.html"
    for command, arguments in ((browser, []), (f"{browser} --new-window", ["--new-window"])):
        result = run("html", "--open", "-o", page.name, used, env={"BROWSER": str(command)}, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (0, "")
        assert re.fullmatch(r"vramtrace html: wrote a page \$HOME\.html \(\S+ KiB\)\n", result.stderr)
        assert (tmp_path / "opened").read_text().splitlines() == [*arguments, str(page)]
    (tmp_path / "opened").unlink()
    result = run("html", "-o", page, used, env={"BROWSER": str(browser)})
    assert result.stderr.endswith("; open it in a browser, or add --open\n") and not (tmp_path / "opened").exists()


def test_html_opens_with_xdg_open(browser, used, tmp_path):
    browser.rename(tmp_path / "xdg-open")
    run("html", "--open", "-o", tmp_path / "x.html", used, env={"BROWSER": "", "PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (tmp_path / "opened").read_text() == f"{tmp_path}/x.html\n"


@pytest.mark.parametrize("command,status", [("no-such-browser", "0"), ("BROWSER", "3")])
def test_html_without_a_browser(command, status, browser, used, tmp_path):
    command = command.replace("BROWSER", str(browser))
    result = run("html", "--open", "-o", tmp_path / "x.html", used, env={"BROWSER": command, "BROWSER_STATUS": status})
    assert result.returncode == 0  # the page is there
    assert result.stderr.splitlines()[1:] == [f"vramtrace html: {command} could not open {tmp_path}/x.html; set BROWSER, "
                                              "or open it yourself"]
