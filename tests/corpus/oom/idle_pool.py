"""A library's jobs ran in the driver's memory pool, which keeps what they freed; another library then asks for one large buffer.
Remedy: the pool gives back what is idle."""
import ctypes
import os
import sys

import torch

from oom_truth import tell, truth

runtime = ctypes.CDLL("libcudart.so.13")
library = ctypes.CDLL(os.environ["OOM_LIBRARY"])
library.take.argtypes, library.take.restype = [ctypes.c_size_t], ctypes.c_int
ours = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
pool, keep = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
assert runtime.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
assert runtime.cudaMemPoolSetAttribute(pool, 4, ctypes.byref(keep)) == 0  # the release threshold
buffers = [ctypes.c_void_p() for _ in range(4)]
for buffer in buffers:
    assert runtime.cudaMallocAsync(ctypes.byref(buffer), ctypes.c_size_t(250 << 20), None) == 0
for buffer in buffers:
    assert runtime.cudaFreeAsync(buffer, None) == 0
torch.cuda.synchronize()
if "remedy" in sys.argv:
    assert runtime.cudaMemPoolTrimTo(pool, ctypes.c_size_t(0)) == 0
if library.take(900 << 20) == 2:  # asks
    tell(truth(900 << 20, in_pools=True))
    sys.exit(1)
