"""The same with a library that allocates in the order of a stream, one large buffer for each job, and frees none before the end.
Remedy: after each job."""
import ctypes
import sys

import torch

from oom_truth import watch

runtime = ctypes.CDLL("libcudart.so.13")
net = torch.nn.Linear(1024, 1024).cuda()


def job(rows):
    buffer = ctypes.c_void_p()
    assert runtime.cudaMallocAsync(ctypes.byref(buffer), ctypes.c_size_t(220 << 20), None) == 0
    if "remedy" in sys.argv:
        assert runtime.cudaFreeAsync(buffer, None) == 0
        torch.cuda.synchronize()
    with torch.no_grad():
        return net(torch.ones(rows, 1024, device="cuda")).sum()  # asks


watch(in_pools=True)
for rows in [1 << 10] * 4 + [150 << 10]:
    job(rows)
