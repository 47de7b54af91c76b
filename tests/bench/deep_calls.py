"""Allocates and frees at the bottom of a chain of Python frames, for counting instructions:

    deep_calls.py driver|block FRAMES PAIRS [LIBRARY]

driver: cuMemAlloc_v2 and cuMemFree_v2. block: what PyTorch's allocator tells its profiler, from the LIBRARY that has this
function.
"""
import ctypes
import sys

DEVICE = 0x0001  # c10::Device: CUDA, number 0


def driver_calls():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    out, size, allocate, free = ctypes.byref(address), ctypes.c_size_t(4096), cuda.cuMemAlloc_v2, cuda.cuMemFree_v2
    return lambda: allocate(out, size), lambda: free(address)


def block_calls(library):
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    tell = ctypes.CDLL(None)._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
    tell.argtypes = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint16
    return (lambda: tell(0x10000, 4096, 4096, 2 << 20, DEVICE)), (lambda: tell(0x10000, -4096, 0, 2 << 20, DEVICE))


def descend(frames, pairs, allocate, free):
    if frames > 1:
        return descend(frames - 1, pairs, allocate, free)
    for _ in range(pairs):
        allocate()
        free()


kind, depth, pairs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# The module and the lambda are frames too.
descend(depth - 2, pairs, *(driver_calls() if kind == "driver" else block_calls(sys.argv[4])))
