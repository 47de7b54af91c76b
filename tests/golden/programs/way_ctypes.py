"""Finds libcuda as Python programs do."""
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, result


context = ctypes.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
for i in range(1, 4):
    address = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(i << 20)))
    print(f"alloc {address.value:#x} {i << 20} 0")
    print(f"free {address.value:#x}")
    check(cuda.cuMemFree_v2(address))
