"""Bad surroundings: the host does what it does without us, and what is lost is told."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import events, info, run, vramtrace  # noqa: E402

# libcuda by ctypes: quick, and no torch.
START = """
import ctypes, os, sys, signal
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
def allocate(size=4096):
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address
"""


def python(code, trace, check=True, **settings):
    return run([sys.executable, "-c", START + code], trace, check=check, **settings)


def lines_of_ours(result):
    return [line for line in result.stderr.splitlines() if line.startswith("vramtrace:")]


def test_no_such_folder(tmp_path):
    result = python("allocate(); print('fine')", tmp_path / "none" / "x.vrt")
    assert result.stdout == "fine\n"
    assert len(lines_of_ours(result)) == 1
    assert "not recording" in result.stderr and str(tmp_path / "none" / "x.vrt") in result.stderr


def test_existing_file_is_kept(tmp_path):
    (tmp_path / "x.vrt").write_text("precious")
    python("allocate()", tmp_path / "x.vrt")
    assert (tmp_path / "x.vrt").read_text() == "precious"
    assert info(tmp_path / "x.1.vrt")["counts"]["kinds"]["alloc"]["driver"] == 1


@pytest.mark.parametrize("name,value", [("VRAMTRACE_RING", "lots"), ("VRAMTRACE_RING", "1KiB"),
                                        ("VRAMTRACE_QUIET", "perhaps")])
def test_wrong_setting_is_named(tmp_path, name, value):
    result = python("allocate()", tmp_path / "x.vrt", **{name: value})
    assert any(f"{name}={value}" in line for line in lines_of_ours(result)), result.stderr
    assert info(tmp_path / "x.vrt")["trace"]["complete"]


def test_switched_off(tmp_path):
    result = python("allocate()", tmp_path / "x.vrt", VRAMTRACE_ENABLE="0")
    assert result.stderr == "" and list(tmp_path.iterdir()) == []


def test_private_file(tmp_path):
    python("allocate()", tmp_path / "x.vrt")
    assert (tmp_path / "x.vrt").stat().st_mode & 0o777 == 0o600


def test_fork_after_cuda(tmp_path):
    """The child's events are its own: a file of its own, at its own first event; the parent's is untouched."""
    result = python("""
# No driver works in a forked child, so these are blocks of PyTorch's seam (2 KiB on device 0).
report = ctypes.CDLL(None)._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
def block(number):
    report(ctypes.c_void_p(number << 12), ctypes.c_long(2048), ctypes.c_ulong(number * 2048), ctypes.c_ulong(1 << 20), 1)
allocate()
block(1)
child = os.fork()
if child == 0:
    second = os.fork()
    if second == 0:
        os._exit(0)      # no event, no file
    os.waitpid(second, 0)
    for number in range(1, 4): block(number)
    sys.exit(0)
os.waitpid(child, 0)
for number in range(2, 7): block(number)
print(child, os.getpid())
""", tmp_path / "%p.vrt")
    child, parent = result.stdout.split()
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted([child, parent])
    assert info(tmp_path / f"{child}.vrt")["counts"]["kinds"]["alloc"]["framework"] == 3
    assert info(tmp_path / f"{parent}.vrt")["counts"]["kinds"]["alloc"]["framework"] == 6
    assert info(tmp_path / f"{child}.vrt")["trace"]["complete"]


def test_exec_keeps_the_preload(tmp_path):
    code = START + "allocate(); allocate()"
    run([sys.executable, "-c", f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {code!r}])"],
        tmp_path / "x.vrt")
    assert info(tmp_path / "x.vrt")["counts"]["kinds"]["alloc"]["driver"] == 2


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
def test_killed_by_a_signal(tmp_path, number):
    """The host dies as it would, by the same signal; the trace holds all."""
    result = python(f"for _ in range(100): allocate()\nos.kill(os.getpid(), {int(number)})", tmp_path / "x.vrt",
                    check=False)
    assert result.returncode in (-number, 128 + number)
    seen = info(tmp_path / "x.vrt")
    assert seen["trace"]["complete"] is False
    assert seen["counts"]["kinds"]["alloc"]["driver"] == 100


def test_exit_without_handlers(tmp_path):
    python("for _ in range(10): allocate()\nos._exit(0)", tmp_path / "x.vrt")
    assert info(tmp_path / "x.vrt")["counts"]["kinds"]["alloc"]["driver"] == 10


def test_exit_status_and_errno(tmp_path):
    result = python("""
library = ctypes.CDLL("libcuda.so.1", use_errno=True)
ctypes.set_errno(77)
address = ctypes.c_uint64()
assert library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096)) == 0  # the first event: the file is made
assert library.cuMemFree_v2(address) == 0
assert ctypes.get_errno() == 77, ctypes.get_errno()
sys.exit(17)
""", tmp_path / "x.vrt", check=False)
    assert result.returncode == 17


def test_small_ring_many_threads(tmp_path):
    """More events than a ring holds: they go through the writer, or are counted as dropped; none is doubled."""
    result = python("""
import threading
def work():
    assert cuda.cuCtxSetCurrent(context) == 0
    for _ in range(5000):
        assert cuda.cuMemFree_v2(allocate()) == 0
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""", tmp_path / "x.vrt", VRAMTRACE_RING="256KiB")
    seen = info(tmp_path / "x.vrt")
    kinds = seen["counts"]["kinds"]
    lost = seen["trace"]["dropped"]
    assert kinds["alloc"]["driver"] + kinds["free"]["driver"] <= 80000
    assert kinds["alloc"]["driver"] + kinds["free"]["driver"] + lost >= 80000
    if lost == 0:
        assert seen["disagreements"]["unknown_frees"] == 0
    assert lines_of_ours(result)


def in_small_disk(tmp_path, size, code, before="true"):
    folder = tmp_path / "small"
    folder.mkdir()
    script = (f'mount -t tmpfs -o size={size} tmpfs "{folder}" && {before.format(folder)}; "$@"; status=$?; '
              f'cp "{folder}"/*.vrt "{tmp_path}"/ 2>/dev/null; exit $status')
    return run(["unshare", "-m", "bash", "-c", script, "bash", sys.executable, "-c", START + code], folder / "x.vrt",
               check=False)


needs_root = pytest.mark.skipif(os.geteuid() != 0 or subprocess.run(
    ["unshare", "-m", "true"], capture_output=True).returncode != 0, reason="needs a mount namespace of its own")


@needs_root
def test_no_room_for_the_trace(tmp_path):
    result = in_small_disk(tmp_path, "64k", "allocate(); print('fine')", "cat /dev/zero >{}/full 2>/dev/null")
    assert result.returncode == 0 and result.stdout == "fine\n"
    assert len(lines_of_ours(result)) == 1 and "No space left" in result.stderr
    assert not list(tmp_path.glob("*.vrt"))


@needs_root
def test_disk_full_while_recording(tmp_path):
    """The recording stops, the host goes on, the trace reads and says why it ends. (A chunk of such events takes up to 100 KB.)"""
    result = in_small_disk(tmp_path, "400k", """
import random
for i in range(150000):
    cuda.cuMemFree_v2(allocate(random.randrange(1, 1 << 30)))
print('fine')
""")
    assert result.returncode == 0 and result.stdout == "fine\n", result.stderr
    assert len(lines_of_ours(result)) == 1 and "recording stopped" in result.stderr, result.stderr
    seen = info(tmp_path / "x.vrt")
    assert seen["trace"]["complete"] is False
    assert seen["counts"]["kinds"]["alloc"]["driver"] > 1000
    assert "disk was full" in vramtrace("info", tmp_path / "x.vrt").stdout


def test_marks(tmp_path):
    python("""
library = ctypes.CDLL(None)
allocate()
assert library.vramtrace_mark(b"first") == 1
allocate()
assert library.vramtrace_range_push(b"inside") == 1
assert library.vramtrace_mark("Ünïcode ✓".encode()) == 1
assert library.vramtrace_range_pop() == 1
library.vramtrace_mark(b"x" * 5000)
""", tmp_path / "x.vrt")
    kinds = [event["kind"] for event in events(tmp_path / "x.vrt", stacks=False) if event["layer"] == "none"
             or event["kind"] == "alloc"]
    assert kinds == ["alloc", "mark", "alloc", "range_push", "mark", "range_pop", "mark"]
    names = [event.get("name") for event in events(tmp_path / "x.vrt", stacks=False) if event["kind"] == "mark"]
    assert names == ["first", "Ünïcode ✓", "x" * 1023]


def test_mark_before_any_cuda_event_makes_no_file(tmp_path):
    run([sys.executable, "-c", "import ctypes; assert ctypes.CDLL(None).vramtrace_mark(b'x') == 0"], tmp_path / "x.vrt")
    assert list(tmp_path.iterdir()) == []
