"""The command lines of steps, diff and check."""

import json
import os

import pytest

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
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(run(*words(command, trace), "--json").stdout)["format"] == f"vramtrace.{command}/1"
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
    odd = trace.rename(tmp_path / name)
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
    assert len(result.stdout.splitlines()) == len(result.stderr.splitlines()) == 1
    check_refused(run("check", "--baseline", tmp_path / "none.vrt", trace), 3, "none.vrt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_check_unreadable_baseline(trace, killed):
    killed.chmod(0)
    check_refused(run("check", "--baseline", killed, trace), 3, "Permission denied")
