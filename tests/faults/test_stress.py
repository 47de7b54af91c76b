"""What a host may do to a library inside it (stress.c): it ends as it would without us, and the trace holds what it made."""
import pathlib
import re
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, info, run, vramtrace  # noqa: E402

STRESS = BUILD / "tests" / "faults" / "stress"
PLUGIN = BUILD / "tests" / "faults" / "stress_plugin.so"


def stress(tmp_path, *arguments, status=0, trace="x.vrt", **settings):
    result = run(["env", "-C", tmp_path, STRESS, *arguments], tmp_path / trace, check=False, timeout=300, **settings)
    assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
    return result


def made(result):
    return tuple(map(int, re.search(r"alloc (\d+) free (\d+)", result.stdout).groups()))


def check_counts(result, trace):
    """Every event is there, or counted as lost; the framework's totals agree with it."""
    seen = info(trace)
    kinds = seen["counts"]["kinds"]
    counted = tuple(kinds[kind].get("driver", 0) + kinds[kind].get("framework", 0) for kind in ("alloc", "free"))
    lost = seen["trace"]["dropped"]
    assert seen["trace"]["complete"]
    if lost == 0:
        assert counted == made(result)
        assert seen["disagreements"] == {name: 0 for name in seen["disagreements"]}
    else:
        assert sum(counted) <= sum(made(result)) <= sum(counted) + lost
    return seen


@pytest.mark.parametrize("ring", ["256KiB", "4MiB"])
def test_many_threads_on_small_stacks(tmp_path, ring):
    check_counts(stress(tmp_path, "threads", 8, 10000, VRAMTRACE_RING=ring), tmp_path / "x.vrt")


def test_threads_that_come_and_go(tmp_path):
    """Ten times the threads take no more memory, once the tables' pages are touched."""
    result = stress(tmp_path, "short", 5000)
    check_counts(result, tmp_path / "x.vrt")
    early, late = map(int, re.search(r"resident_kib (\d+) (\d+)", result.stdout).groups())
    assert late - early < 20000
    assert (tmp_path / "x.vrt").stat().st_blocks * 512 / 5000 < 200


def test_little_of_the_callers_stack_is_used(tmp_path):
    result = stress(tmp_path, "stack")
    assert max(map(int, re.findall(r"\w+ (\d+)", result.stdout))) < 16 << 10


def test_forks_while_threads_record(tmp_path):
    """No child waits for a lock that a thread of its parent held: the recorder's or the loader's."""
    result = stress(tmp_path, "forks", 100, VRAMTRACE_QUIET="1")
    assert "child ended with" not in result.stdout
    check_counts(result, tmp_path / "x.vrt")
    for number in range(1, 101):
        kinds = info(tmp_path / f"x.{number}.vrt")["counts"]["kinds"]
        assert kinds["alloc"]["framework"] == 10 and kinds["free"] == {"driver": 10, "framework": 10}


def test_exit_in_a_thread(tmp_path):
    stress(tmp_path, "exit", status=7)
    assert info(tmp_path / "x.vrt")["disagreements"]["total_mismatches"] == 0


def test_files_of_the_host_are_not_written_to(tmp_path):
    """All descriptors are closed and their numbers used again; the trace goes on, by its name."""
    result = stress(tmp_path, "close")
    assert "file" not in result.stdout
    assert info(tmp_path / "x.vrt")["counts"]["kinds"]["alloc"]["framework"] == 100001 + 128


def test_limit_of_file_size(tmp_path):
    """Too little for a ring in a file: it is private memory then."""
    stress(tmp_path, "fsize")
    seen = info(tmp_path / "x.vrt")
    assert seen["trace"]["complete"] and seen["counts"]["kinds"]["alloc"]["framework"] == 1


def test_broken_pipe_behind_stderr(tmp_path):
    stress(tmp_path, "stderr")
    assert info(tmp_path / "x.vrt")["trace"]["complete"]


def test_frees_alone_begin_no_trace(tmp_path):
    stress(tmp_path, "frees")
    assert list(tmp_path.iterdir()) == []


def test_constructor_that_waits_for_the_first_event(tmp_path):
    check_counts(stress(tmp_path, "constructor", PLUGIN), tmp_path / "x.vrt")


def test_plugin_that_goes(tmp_path):
    check_counts(stress(tmp_path, "plugin", PLUGIN, 300), tmp_path / "x.vrt")


def test_code_without_unwind_information(tmp_path):
    check_counts(stress(tmp_path, "cfi"), tmp_path / "x.vrt")


def test_daemon(tmp_path):
    stress(tmp_path, "daemon")
    for _ in range(100):
        time.sleep(0.1)
        done = vramtrace("info", "--json", tmp_path / "x.1.vrt", check=False)
        if done.returncode == 0 and '"complete": true' in done.stdout.replace('":true', '": true'):
            break
    for name in ("x.vrt", "x.1.vrt"):
        assert info(tmp_path / name)["counts"]["kinds"]["alloc"]["framework"] == 1


def test_a_full_table_of_names_is_told(tmp_path):
    """More names of marks than are kept: the marks are there, and the loss is counted and said."""
    run([sys.executable, "-c", """
import ctypes
library = ctypes.CDLL(None)
library._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(ctypes.c_void_p(4096), ctypes.c_long(512),
                                                               ctypes.c_ulong(512), ctypes.c_ulong(4096), 1)
for number in range(400000):
    library.vramtrace_mark(b"step %d" % number)
"""], tmp_path / "x.vrt")
    seen = info(tmp_path / "x.vrt")["trace"]
    assert seen["dropped"] == 0 and 0 < seen["dropped_definitions"] < 400000
    assert "definition" in vramtrace("info", tmp_path / "x.vrt").stdout
