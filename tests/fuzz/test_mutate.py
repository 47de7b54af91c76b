"""Short form of mutate.py, over a complete trace, one of a killed process, and one of many chains, some of which are read as digests."""
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, ENVIRONMENT, LONG, run  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from mutate import failure_of  # noqa: E402

CODE = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
for number in range(300):
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(number * 512 + 512)) == 0
    if number % 3: cuda.cuMemFree_v2(address)
    if number % 50 == 0: ctypes.CDLL(None).vramtrace_mark(b"mark")
"""


@pytest.mark.parametrize("trace", sorted((HERE / "found").glob("*.vrt")), ids=lambda path: path.stem)
def test_what_was_found(trace, tmp_path):
    """Traces that once ended a command (fuzz.sh)."""
    copy = shutil.copy(trace, tmp_path / trace.name)
    assert failure_of(copy) is None


def test_damaged_traces(tmp_path):
    run([sys.executable, "-c", CODE], tmp_path / "whole.vrt", VRAMTRACE_RING="256KiB")
    run([sys.executable, "-c", CODE + "os.kill(os.getpid(), 9)"], tmp_path / "killed.vrt", check=False,
        VRAMTRACE_RING="256KiB")
    subprocess.run([BUILD / "tests/unit/rechain", tmp_path / "whole.vrt", tmp_path / "chains.vrt", "40"], check=True)
    for names, budget in (("whole", "killed"), None), (("chains",), "150"):
        environment = {**ENVIRONMENT, **({"VRAMTRACE_BUDGET_EVENTS": budget} if budget else {})}
        done = subprocess.run([sys.executable, HERE / "mutate.py", *(tmp_path / f"{name}.vrt" for name in names), "--count",
                               "200" if LONG else "40"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
