"""os._exit, which a forked child of multiprocessing calls: its trace is whole, its status is its own, and nobody else's recording ends."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, RUN, info, run  # noqa: E402

DRIVER = """
import ctypes, os, subprocess, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def use(count):
    pointer, context = ctypes.c_void_p(), ctypes.c_void_p()
    if not cuda.cuInit(0):
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cuda.cuCtxSetCurrent(context)
    for _ in range(count):
        assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20))
"""
ENDS = {
    "itself": "use(20); os._exit(3)",
    "a thread": "import threading; use(20); threading.Thread(target=os._exit, args=(3,)).start(); time.sleep(60)",
    "a signal's handler": "import signal; use(20); signal.signal(signal.SIGALRM, lambda *_: os._exit(3)); signal.alarm(1); time.sleep(60)",
}
# Children that end while their parent goes on recording.
OTHERS = {
    "forked": "use(5); child = os.fork(); child or os._exit(7); print(os.waitpid(child, 0)[1] >> 8); use(15)",
    "vfork": "use(5)\ntry: subprocess.run(['/nowhere/at/all'], close_fds=False)\nexcept OSError as error: print(error.errno)\nuse(15)",
    "forked, records": "child = os.fork(); child or (use(8), os._exit(7)); print(os.waitpid(child, 0)[1] >> 8); use(20)",
}


def allocations(trace):
    return info(trace)["counts"]["kinds"]["alloc"]["driver"]


@pytest.mark.skipif(not RUN, reason="with a GPU, CUDA does not work in a forked child")
@pytest.mark.parametrize("who", ENDS)
def test_the_trace_is_whole(who, tmp_path):
    done = run([PYTHON, "-c", DRIVER + ENDS[who]], tmp_path / "x.vrt", check=False)
    assert done.returncode == 3, done.stderr
    assert info(tmp_path / "x.vrt")["trace"]["complete"] and allocations(tmp_path / "x.vrt") == 20


@pytest.mark.skipif(not RUN, reason="with a GPU, CUDA does not work in a forked child")
@pytest.mark.parametrize("who, told", [("forked", "7"), ("vfork", "2"), ("forked, records", "7")])
def test_the_parent_goes_on(who, told, tmp_path):
    done = run([PYTHON, "-c", DRIVER + OTHERS[who]], tmp_path / "%p.vrt")
    traces = sorted(tmp_path.glob("*.vrt"), key=allocations)
    assert done.stdout.split() == [told] and all(info(trace)["trace"]["complete"] for trace in traces)
    assert [allocations(trace) for trace in traces] == ([8, 20] if who == "forked, records" else [20])


TITLE = """
libc, title = ctypes.CDLL(None), b"worker 3\\0"
ctypes.memmove(ctypes.c_void_p.in_dll(libc, "program_invocation_name").value, title, len(title))
"""


@pytest.mark.skipif(not RUN, reason="with a GPU, CUDA does not work in a forked child")
@pytest.mark.parametrize("end", ["os._exit(3)", "sys.exit(3)"])
def test_the_title_at_the_end(end, tmp_path):
    """As servers name their workers; the arguments are those of the start, by which a run can be repeated."""
    done = run([PYTHON, "-c", DRIVER + "use(20)\ntime.sleep(0.3)" + TITLE + end, "word"], tmp_path / "x.vrt", check=False)
    seen = info(tmp_path / "x.vrt")["trace"]
    assert done.returncode == 3 and seen["command"].startswith("worker 3"), (seen, done.stderr)
    assert seen["complete"] and allocations(tmp_path / "x.vrt") == 20
