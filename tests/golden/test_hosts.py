"""Programs that would notice us: errno, sanitizers that replace what we call, other allocators."""
import ctypes.util
import shutil
import subprocess

import pytest

from harness import HERE, STANDIN, check_exactly_once, run


def test_errno(tmp_path, recorder):
    done, plain = run(tmp_path, ["driver_calls", "errno"], recorder), run(tmp_path, ["driver_calls", "errno"], None)
    assert done.returncode == 0 and done.recorded
    assert done.output == plain.output and "errno 4711" in plain.output


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
    # libunwind frees its thread's cache when ThreadSanitizer has given up the thread already, and crashes there:
    # no native stacks then.
    native = 0 if "thread" in sanitized_program.parent.name else 1
    check_exactly_once(run(tmp_path, [sanitized_program, mode], recorder, VRAMTRACE_NATIVE_STACKS=native,
                           ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0",
                           TSAN_OPTIONS="ignore_noninstrumented_modules=1"))


@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc_minimal", "mimalloc"])
@pytest.mark.parametrize("order", ["SHIM {}", "{} SHIM"])
def test_allocator(tmp_path, recorder, allocator, order):
    library = ctypes.util.find_library(allocator)
    if library is None:
        pytest.skip(f"lib{allocator} is not installed")
    check_exactly_once(run(tmp_path, ["way_lookup", "threads"], recorder, LD_PRELOAD=order.format(library)))
    check_exactly_once(run(tmp_path, [STANDIN.parent / "golden" / "way_linked"], recorder,
                           LD_PRELOAD=order.format(library)))
