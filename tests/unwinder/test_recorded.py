"""A program recorded with -Dunwinder=libunwind: its first stacks are cut, and counted; the last is the one that our own reader gives."""
import pathlib
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, ENVIRONMENT, PROGRAM, PYTHON  # noqa: E402

ALLOCATE = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
for _ in range(16):
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == cuda.cuMemFree_v2(pointer) == 0
    time.sleep(0.15)
"""
# An unnamed function is its address: of that, what is the same wherever the library lies.
NATIVE = """select f.module, iif(f.function like '0x%', substr(f.function, -3), f.function)
from stacks s join frames f on f.frame = s.frame
where f.kind = 'native' and s.stack = (select stack from events where function = 'cuMemAlloc_v2' order by event {} limit 1)
order by s.depth"""


def record(build, folder):
    """The native frames of the first and of the last allocation, and how many walks were cut."""
    environment = {**ENVIRONMENT, "LD_PRELOAD": str(build / "preload" / "libvramtrace.so"), "LD_LIBRARY_PATH": str(BUILD / "simulate"),
                   "VRAMTRACE_OUT": str(folder / "run.vrt"), "VRAMTRACE_QUIET": "1"}
    subprocess.run([PYTHON, "-c", ALLOCATE], env=environment, check=True)
    subprocess.run([PROGRAM, "export", "--format", "sqlite", "-o", folder / "run.db", folder / "run.vrt"], env=ENVIRONMENT, check=True)
    with sqlite3.connect(folder / "run.db") as tables:
        cut = tables.execute("select native_walks_cut from trace").fetchone()[0]
        return *(tables.execute(NATIVE.format(order)).fetchall() for order in ("asc", "desc")), cut


def test_stacks_are_whole_once_libunwind_has_answered(tmp_path):
    own, theirs = tmp_path / "own", tmp_path / "libunwind"
    own.mkdir()
    theirs.mkdir()
    first, whole, none = record(BUILD, own)
    assert first == whole and len(whole) >= 3 and none == 0
    cut, last, count = record(BUILD.with_name(BUILD.name + "-libunwind"), theirs)
    assert len(cut) < len(whole) and cut == whole[:len(cut)]
    assert last == whole
    print(f"{len(cut)} of {len(whole)} native frames at first, all at last; {count} walks were cut")
    assert count >= len(whole) - len(cut)
