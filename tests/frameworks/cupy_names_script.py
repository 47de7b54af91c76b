"""Arrays of CuPy in one driver allocation, as its pool puts them there. Prints the allocation and, by path, where each array lies.

CuPy's runtime refuses the stand-in, so the memory is the driver's own; the arrays are CuPy's, and make no call of the runtime."""
import ctypes
import json

import cupy
from cupy.cuda.memory import MemoryPointer, UnownedMemory

MIB = 1 << 20
driver, api = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
context, chunk = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0 and driver.cuMemAlloc_v2(ctypes.byref(chunk), ctypes.c_size_t(512 * MIB)) == 0


def make(offset, shape, dtype):
    size = cupy.dtype(dtype).itemsize
    for extent in shape:
        size *= extent
    return cupy.ndarray(shape, dtype, MemoryPointer(UnownedMemory(chunk.value + offset, size, None, 0), 0))


def work():
    local = make(448 * MIB, (MIB,), "float64")
    if hasattr(api, "vramtrace_inspect"):
        api.vramtrace_inspect(b"made")
    for _ in range(100):  # the inspection is between two of these
        pass
    return [["local", local.data.ptr, local.nbytes]]


tables = {"x": make(0, (8192, 8192), "float32"), "ys": [make((256 + 64 * i) * MIB, (64 * MIB,), "int8") for i in range(2)]}
nothing = make(500 * MIB, (0, 3), "float32")
told = work() + [[path, array.data.ptr, array.nbytes] for path, array in (
    ("tables['x']", tables["x"]), ("tables['ys'][0]", tables["ys"][0]), ("tables['ys'][1]", tables["ys"][1]))]
print(json.dumps({"chunk": chunk.value, "bytes": 512 * MIB, "arrays": told}))
