"""The GPUs of simulate/gpus.def: the driver tells what the table has, and the table what is known of the cards."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]
from helpers import BUILD  # noqa: E402

NAMES = ["memory", "context", "capability", "sms", "l2", "threads", "blocks", "shared", "estimated"]
ROWS = {key: {"name": name, **dict(zip(NAMES, map(int, numbers.split(","))))} for key, name, numbers in
        re.findall(r'^X\(([\w-]*), "(.+?)", (.+)\)$', (ROOT / "simulate/gpus.def").read_text(), re.MULTILINE)}

ASK = """
import ctypes, sys
cuda, number, size = ctypes.CDLL(sys.argv[1]), ctypes.c_int(), ctypes.c_size_t()
name = ctypes.create_string_buffer(100)
assert [cuda.cuInit(0), cuda.cuDeviceGetName(name, 100, 0), cuda.cuDeviceTotalMem_v2(ctypes.byref(size), 0)] == [0, 0, 0]
print(name.value.decode(), size.value, sep="\\n")
for attribute in 75, 76, 16, 38, 39, 106, 81, 97, 111, 13, 36, 37:  # CUdevice_attribute
    assert cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, 0) == 0
    print(number.value)
"""

# As deviceQuery or PyTorch told of real cards: capability, SMs, L2 in bytes, the bytes of memory, the largest block's shared memory.
KNOWN = {"v100-16gb": (70, 80, 6291456, 16928342016, 98304), "t4": (75, 40, 4194304, 14912 << 20, 65536),
         "a10": (86, 72, 6291456, 22587 << 20, 101376), "a100-40gb": (80, 108, 41943040, 42405855232, 166912),
         "l4": (89, 58, 50331648, 22563 << 20, 101376), "l40s": (89, 142, 100663296, 45711 << 20, 101376),
         "h100-80gb": (90, 132, 52428800, 85017755648, 232448), "b200": (100, 148, 132644864, 182631 << 20, 232448),
         "rtx4090": (89, 128, 75497472, 25250627584, 101376), "rtx5090": (120, 170, 100663296, 33668857856, 101376),
         "gh200": (90, 132, 62914560, 102005473280, 232448)}


def test_the_table_is_whole():
    text = (ROOT / "simulate/gpus.def").read_text()
    assert len(ROWS) == len(re.findall(r"^X\(", text, re.MULTILINE)) and set(KNOWN) < set(ROWS) and list(ROWS)[0] == ""
    assert all(list(row) == ["name", *NAMES] and 0 <= row["estimated"] <= 3 for row in ROWS.values())


@pytest.mark.parametrize("key", ROWS)
def test_the_driver_tells_the_row(key):
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("VRAMTRACE_STANDIN", "CUDA_"))}
    told = subprocess.run([sys.executable, "-c", ASK, BUILD / "simulate/libcuda.so.1"], capture_output=True, text=True, check=True,
                          env=settings | {"VRAMTRACE_STANDIN_GPU": key})
    name, memory, major, minor, sms, l2, threads, blocks, shared, optin, kept, *speed = told.stdout.splitlines()
    row = ROWS[key]
    assert told.stderr == "" and name == row["name"] and [int(word) for word in (memory, major + minor, sms, threads, blocks, shared)] == [
        row["memory"] << 20, row["capability"], row["sms"], row["threads"], row["blocks"], row["shared"] << 10]
    assert int(l2) == row["l2"] << 10 and int(optin) + int(kept) == int(shared) and int(kept) == (1024 if row["capability"] >= 80 else 0)
    # Each row has its own speeds; the first one's are used where they are missing.
    assert len(speed) == 3 and (speed == ["1410000", "1512000", "5120"]) == (key == "")
    if key in KNOWN:
        *others, size, block = KNOWN[key]
        assert [row["capability"], row["sms"], int(l2)] == others and int(optin) == block and abs(int(memory) - size) < 1 << 20
