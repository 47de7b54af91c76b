"""Programs that would notice us: errno, sanitizers that replace what we call, other allocators."""
import ctypes.util
import shutil
import subprocess

import pytest

from harness import HERE, PROGRAMS, check_exactly_once, run


def test_errno(tmp_path, recorder):
    done, plain = run(tmp_path, ["driver_calls", "errno"], recorder), run(tmp_path, ["driver_calls", "errno"], None)
    assert done.returncode == 0 and done.recorded
    assert done.output == plain.output and "errno 4711" in plain.output


def test_dlerror(tmp_path, recorder):
    done, plain = (run(tmp_path, ["driver_calls", "dlerror"], name) for name in (recorder, None))
    assert done.returncode == 0 and done.output == plain.output == "dlerror undefined symbol: no_such_name\n"


def preload_of(name):
    return f"{PROGRAMS / name} RECORDER"


def test_errno_while_another_thread_forks(tmp_path):
    """A lookup waits for the fork, and signals wake it: the wait is ours, and so is what became of it."""
    done = run(tmp_path, ["fork_errno"], "trace", LD_PRELOAD=preload_of("failing_pins.so"), FAIL_PINS=10 ** 6)
    assert done.returncode == 0, done.output + done.error
    assert "errno 4711" in done.output and "errno 4 " not in done.output, done.output


def pins(done):
    tried, kept = map(int, done.error.split()[1:])
    return tried, kept


def test_pin_that_fails_at_first(tmp_path, recorder):
    """It is tried again."""
    done = run(tmp_path, ["way_host", PROGRAMS / "way_lookup_plugin.so"], recorder,
               LD_PRELOAD=preload_of("failing_pins.so"), FAIL_PINS=3)
    check_exactly_once(done)
    tried, kept = pins(done)
    assert tried > 3 and kept > 0


def test_pin_that_always_fails(tmp_path):
    """A library that cannot be kept is looked for again where it may have gone."""
    done = run(tmp_path, ["way_host"] + [PROGRAMS / "way_linked_plugin.so"] * 4, "trace", WAY_UNLOAD=1,
               LD_PRELOAD=preload_of("failing_pins.so"), FAIL_PINS=10 ** 6)
    check_exactly_once(done)
    tried, kept = pins(done)
    assert tried > 0 and kept == 0 and done.output.count("unloaded 1") == 4


@pytest.fixture(scope="module", params=["address", "thread", "undefined"])
def sanitized_program(request, tmp_path_factory):
    built = tmp_path_factory.mktemp(request.param) / "way_lookup"
    source = HERE / "programs" / "way_lookup.c"
    done = subprocess.run([shutil.which("cc"), f"-fsanitize={request.param}", source, "-ldl", "-pthread", "-o", built],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the compiler has no -fsanitize={request.param}")
    return built


@pytest.mark.parametrize("mode", ["dlsym", "procaddress2", "threads"])
def test_sanitized(tmp_path, recorder, sanitized_program, mode):
    """A sanitizer looks up what it replaces through dlsym, before any function that it replaces can be called."""
    plain = run(tmp_path, [sanitized_program, mode], None)
    if plain.returncode != 0:
        pytest.skip("programs of this sanitizer do not run here")
    check_exactly_once(run(tmp_path, [sanitized_program, mode], recorder,
                           ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0",
                           TSAN_OPTIONS="ignore_noninstrumented_modules=1"))


@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc_minimal", "mimalloc"])
@pytest.mark.parametrize("order", ["RECORDER {}", "{} RECORDER"])
def test_allocator(tmp_path, recorder, allocator, order):
    library = ctypes.util.find_library(allocator)
    if library is None:
        pytest.skip(f"lib{allocator} is not installed")
    check_exactly_once(run(tmp_path, ["way_lookup", "threads"], recorder, LD_PRELOAD=order.format(library)))
    check_exactly_once(run(tmp_path, [PROGRAMS / "way_linked"], recorder,
                           LD_PRELOAD=order.format(library)))
