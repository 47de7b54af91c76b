"""Processes that take device memory by the driver, as seeds say, and tell what they had at their peaks: hold.py FOLDER SCALE SEED...

A child for each seed; its trace is $VRAMTRACE_OUT/PID.vrt, and FOLDER/PID.json has the program's own books (by function) and the
driver's own (standin_device_bytes). Neither is vramtrace's.
"""
import ctypes
import json
import os
import random
import sys


def child(seed, scale, folder):
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.standin_device_bytes.restype = ctypes.c_uint64
    choose = random.Random(seed)
    held, address = {}, ctypes.c_uint64()
    truth = {"seed": seed, "peak_bytes": 0, "functions": {}, "driver_peak_bytes": 0, "refused": 0}

    def book(function, size, code):
        if code:
            truth["refused"] += 1
            return
        held[address.value] = (function, size)
        truth["driver_peak_bytes"] = max(truth["driver_peak_bytes"], cuda.standin_device_bytes(0))
        if sum(size for _, size in held.values()) > truth["peak_bytes"]:
            functions = {}
            for function, size in held.values():
                functions[function] = functions.get(function, 0) + size
            truth.update(peak_bytes=sum(functions.values()), functions=functions)

    def weights():
        for _ in range(choose.randint(1, 6)):
            size = choose.randint(1, 40) << 18
            book("weights", size, cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))

    def cache():
        for _ in range(choose.randint(0, 12)):
            size = choose.randint(1, 1 << 22) * scale
            book("cache", size, cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))

    def scratch():
        for _ in range(choose.randint(1, 4)):
            size = choose.randint(1, 1 << 24)
            book("scratch", size, cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
        for one in [one for one in held if choose.random() < 0.3]:
            assert cuda.cuMemFree_v2(ctypes.c_uint64(one)) == 0
            del held[one]

    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    weights()
    for _ in range(choose.randint(1, 5)):
        cache()
        scratch()
    if seed % 20 == 0:
        book("too_much", 1 << 50, cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 50)))
    with open(os.path.join(folder, f"{os.getpid()}.json"), "w") as file:
        json.dump(truth, file)


def main():
    folder, scale, *seeds = sys.argv[1:]
    for seed in map(int, seeds):
        one = os.fork()
        if not one:
            child(seed, int(scale), folder)
            sys.exit(0)
        _, status = os.waitpid(one, 0)
        assert status == 0, status


main()
