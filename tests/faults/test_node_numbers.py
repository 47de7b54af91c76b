"""PyTorch takes the numbers of its autograd nodes from a function that the recorder stands in front of: they must be the real
ones, whatever library has it, and before any CUDA event."""
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import run  # noqa: E402

NAME = "_ZN2at15sequence_number17get_and_incrementEv"
LIBRARY = f"""
unsigned long {NAME}(void) {{ static __thread unsigned long next = 100; return next++; }}
unsigned long node(void) {{ return {NAME}(); }}
"""
PROGRAM = """
import ctypes, os, sys, threading
node = getattr(ctypes.CDLL(sys.argv[1] if len(sys.argv) > 2 else None), sys.argv[-1])
node.restype = ctypes.c_uint64
print([node() for _ in range(3)])
thread = threading.Thread(target=lambda: print([node() for _ in range(3)]))
thread.start()
thread.join()
sys.stdout.flush()
if os.fork() == 0:
    print([node() for _ in range(2)])
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


def numbers(tmp_path, *arguments, **how):
    result = run([sys.executable, "-c", PROGRAM, *arguments], tmp_path / "none.vrt", **how)
    assert not (tmp_path / "none.vrt").exists() and not result.stderr
    return result.stdout.split("\n")[:-1]


@pytest.mark.parametrize("link_option", ["-Wl,-z,lazy", "-Wl,-z,now"])
def test_are_those_of_the_library(tmp_path, link_option):
    (tmp_path / "nodes.c").write_text(LIBRARY)
    subprocess.run([shutil.which("cc"), "-shared", "-fPIC", link_option, "-o", tmp_path / "libnodes.so",
                    tmp_path / "nodes.c"], check=True)
    expected = ["[100, 101, 102]", "[100, 101, 102]", "[103, 104]"]
    assert numbers(tmp_path, tmp_path / "libnodes.so", "node", preload=False) == expected
    assert numbers(tmp_path, tmp_path / "libnodes.so", "node") == expected


def test_without_a_library_count_up(tmp_path):
    assert numbers(tmp_path, NAME) == ["[0, 1, 2]", "[0, 1, 2]", "[3, 4]"]
