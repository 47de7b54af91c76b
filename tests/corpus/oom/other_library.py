"""A library of the same process keeps buffers of its own, which PyTorch cannot use. Remedy: it gives them back."""
import ctypes
import sys

import torch

from oom_truth import watch

runtime = ctypes.CDLL("libcudart.so.13")
ours = torch.empty(300 << 20, dtype=torch.uint8, device="cuda")


def fill_pool():
    buffers = [ctypes.c_void_p() for _ in range(7)]
    for buffer in buffers:
        assert runtime.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(128 << 20)) == 0
    return buffers


pool = fill_pool()
watch()
for buffer in pool if "remedy" in sys.argv else ():
    runtime.cudaFree(buffer)
more = torch.empty(700 << 20, dtype=torch.uint8, device="cuda")  # asks
