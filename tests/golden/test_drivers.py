"""NVIDIA's own libcuda and NVML, of Debian's non-free component, on a machine without a GPU: one driver of those of drivers.py."""
import json
import subprocess
import sys

import pytest

import drivers
import harness
import test_next
from harness import ANALYZER, LIBRARIES, STANDIN, environment


@pytest.fixture(scope="module", name="driver")
def fetched():
    folder, why = drivers.fetch("535")
    if folder is None:
        pytest.skip(why)
    return folder


def test_every_answer_is_the_same_but_that_hooked_functions_are_ours(driver):
    found, wrong = drivers.examine(driver)
    assert not wrong, "\n".join(wrong[:20])
    hooked = set(drivers.exports(driver / "libcuda.so.1")) & drivers.HOOKED
    assert len(hooked) > 100 and found["libcuda.so.1", "reached", "ours"] == 3 * len(hooked)
    assert found["libcuda.so.1", "lookups", "ours"] == 3 * len(hooked)
    assert found["libcuda.so.1", "entries", "ours"] > 500
    assert (found["libcuda.so.1", "initialized"], found["libnvidia-ml.so.1", "initialized"]) == (100, 9)  # no device, no driver


def test_every_export_is_known(driver):
    assert None not in drivers.other_exports(driver)


@pytest.mark.parametrize("program", ["next_answers", "next_answers_linked"])
def test_what_comes_next(tmp_path, driver, monkeypatch, program):
    monkeypatch.setattr(harness, "STANDIN", driver)
    test_next.test_program(tmp_path, program)
    test_next.test_preloaded(tmp_path, program, "asker_linked", "{} RECORDER")
    test_next.test_plugin(tmp_path, program, "asker_linked")


USES_NVML = """
import ctypes, os, sys, time

def descriptors():
    return [number for number in os.listdir("/proc/self/fd") if int(number) < 900 and os.path.exists(f"/proc/self/fd/{number}")]

cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
before = descriptors()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0
end = time.monotonic() + 30
while "LD_PRELOAD" in os.environ and "memfd:vramtrace" not in open("/proc/self/maps").read():
    assert time.monotonic() < end, "the recorder has made no copy"
    time.sleep(0.02)
time.sleep(0.2)
nvml, count, text = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint(7), ctypes.create_string_buffer(96)
print(nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), count.value, nvml.nvmlShutdown())
print(nvml.nvmlSystemGetDriverVersion(text, 96), text.value, descriptors() == before)
"""


def test_the_private_copy_of_nvml(tmp_path, driver):
    """Over the simulated driver, so that there is something to record; NVML is the real one, and finds no driver."""
    for library in STANDIN.glob("*.so*"):
        if "nvidia-ml" not in library.name:
            (tmp_path / library.name).symlink_to(library)
    (tmp_path / "libnvidia-ml.so.1").symlink_to(driver / "libnvidia-ml.so.1")
    trace = tmp_path / "a.vrt"
    outputs = [subprocess.run([sys.executable, "-c", USES_NVML], text=True, capture_output=True, check=True, timeout=120,
                              env=environment(library, VRAMTRACE_OUT=trace, LD_LIBRARY_PATH=tmp_path)).stdout
               for library in (None, LIBRARIES["trace"])]
    assert outputs[0] == outputs[1] and outputs[0].startswith("9 ") and outputs[0].endswith("True\n")
    report = json.loads(subprocess.check_output([ANALYZER, "report", "--json", trace], text=True))
    assert report["devices"][0]["last_gpu"]["source"] == "driver"  # NVML told nothing
