"""Programs of libcudart: shared, static, several releases in one process."""
import re
import subprocess

import pytest

from harness import BUILD, PROGRAMS, check_exactly_once, run


def labels(done):
    """(address, function that the program called), of allocations and frees, as recorded and as is true."""
    recorded = [(e.address, e.label) for e in done.of("alloc", "free")]
    said = [(int(words[1], 16), words[-1]) for words in map(str.split, done.output.splitlines())
            if words[0] in ("alloc", "free")]
    return recorded, said


@pytest.mark.parametrize("program", ["way_runtime", "way_runtime12"])
def test_shared(tmp_path, recorder, program):
    done = run(tmp_path, [program], recorder)
    check_exactly_once(done)
    recorded, said = labels(done)
    assert sorted(recorded) == sorted(said)


def test_two_releases(tmp_path, recorder):
    plugins = [PROGRAMS / "way_runtime_plugin.so", PROGRAMS / "way_runtime12_plugin.so"]
    done = run(tmp_path, ["way_host"] + plugins, recorder)
    check_exactly_once(done)
    recorded, said = labels(done)
    assert sorted(recorded) == sorted(said)


def test_label_ends_with_its_call(tmp_path, recorder):
    done = run(tmp_path, ["way_host", PROGRAMS / "way_runtime_plugin.so", PROGRAMS / "way_linked_plugin.so"], recorder)
    check_exactly_once(done)
    unlabelled = [address for address, label in labels(done)[0] if label == ""]
    assert len(unlabelled) == 18  # what the second plugin does, without libcudart


def test_entry_point(tmp_path, recorder):
    check_exactly_once(run(tmp_path, ["way_entry_point"], recorder))


def test_static(tmp_path, recorder, static_program):
    done = run(tmp_path, [static_program], recorder)
    check_exactly_once(done)
    assert {e.label for e in done.events} == {""}


def test_each_caller_reaches_its_own_release(tmp_path, recorder):
    """Four libcudarts that say who they are, the last one without symbol versions: the answers are the same
    as without us, and what is versioned is recorded in the runtime's layer, since no driver is below."""
    command = ["way_host"] + [PROGRAMS / f"fake_user_{release}.so" for release in (11, 12, 13, 14)]
    done, plain = run(tmp_path, command, recorder), run(tmp_path, command, None)
    assert done.output == plain.output and done.returncode == plain.returncode == 0
    for release in (11, 12, 13, 14):
        assert f"release {release} answered by {release}, results 2 0" in done.output
    assert [(e.address >> 32, e.bytes, e.device, e.layer) for e in done.of("alloc")] == [
        (release, 4096, release - 10, 2) for release in (11, 12, 13)]
    assert sorted(e.address >> 32 for e in done.of("free") if e.address != 1) == [11, 12, 13]
    assert [e.address for e in done.of("free_failed")] == [1, 1, 1]
    # The first one failed before anything was recorded: that begins no trace.
    assert [e.bytes for e in done.of("alloc_failed")] == [1 << 41, 1 << 41]


def test_failure_is_the_drivers(tmp_path, recorder):
    done = run(tmp_path, [BUILD / "tests/simulate/runtime-program"], recorder)
    assert done.returncode == 0, done.error
    failed = done.of("alloc_failed")
    assert failed and {e.layer for e in failed} == {1} and failed[0].label == "cudaMalloc"


def test_versions_come_after_our_own():
    """The loader gives callers without a version the first one: it must not be a libcudart's."""
    text = subprocess.check_output(["readelf", "-VW", BUILD / "preload" / "libvramtrace.so"], text=True)
    found = dict(re.findall(r"Index: (\d+) .*Name: (\S+)", text))
    assert found["2"] == "VRAMTRACE_1"
    assert {found[index] for index in ("3", "4", "5")} == {"libcudart.so.11.0", "libcudart.so.12",
                                                           "libcudart.so.13"}
