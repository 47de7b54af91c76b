"""Launches a kernel with 8 KiB of local memory for each thread: local_memory.py TRUTH."""
import ctypes
import json
import pathlib
import sys
import time

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry deep(.param .u64 where)
{
    .local .align 16 .b8 room[8192];
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [where];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2];
    and.b32 %r1, %r1, 2047;
    mul.wide.u32 %rd3, %r1, 4;
    mov.u64 %rd4, room;
    add.s64 %rd5, %rd4, %rd3;
    st.local.u32 [%rd5], %r1;
    ld.local.u32 %r2, [%rd4];
    st.global.u32 [%rd2+4], %r2;
    ret;
}
"""
cuda, context, module, kernel, memory = ctypes.CDLL("libcuda.so.1"), *(ctypes.c_void_p() for _ in range(4))


def check(result):
    assert result == 0, result


def used():
    check(cuda.cuCtxSynchronize())
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return total.value - free.value


check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)))
check(cuda.cuMemsetD8_v2(memory, 0, ctypes.c_size_t(1 << 20)))
check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"deep"))
before = used()
arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(memory), ctypes.c_void_p))
for _ in range(3):
    check(cuda.cuLaunchKernel(kernel, 256, 1, 1, 256, 1, 1, 0, None, arguments, None))
taken = used() - before
time.sleep(0.6)
pathlib.Path(sys.argv[1]).write_text(json.dumps({"taken": taken}))
