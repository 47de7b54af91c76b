"""The driver alone, without torch: what the card has in use before the first allocation, and what calls cost: first.py TRUTH."""
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

import nvml_read

cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()


def check(result):
    assert result == 0, result


def used():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return total.value - free.value


def allocate(size=2 << 20):
    address = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address


def pair():
    check(cuda.cuMemFree_v2(allocate()))


def microseconds(call, times):
    """Median, 99th of 100, most."""
    spent = []
    for _ in range(times):
        started = time.perf_counter_ns()
        call()
        spent.append((time.perf_counter_ns() - started) / 1000)
    cuts = statistics.quantiles(spent, n=100) if times > 1 else spent * 99
    return [round(cuts[49], 2), round(cuts[98], 2), round(max(spent), 2)]


check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
before = used()
costs = {"first allocation": microseconds(lambda: allocate(64 << 20), 1)}
costs["cuMemAlloc and cuMemFree, 2 MiB: median, 99 %, most"] = microseconds(pair, 2000)
costs["cuMemGetInfo: median, 99 %, most"] = microseconds(used, 2000)
time.sleep(0.6)
try:
    told = nvml_read.read()
    costs["NVML, loaded and asked once more"] = microseconds(nvml_read.read, 20)
except OSError:
    told = None
time.sleep(0.6)
pathlib.Path(sys.argv[1]).write_text(json.dumps({"pid": os.getpid(), "used_before": before, "costs": costs, "nvml": told}))
