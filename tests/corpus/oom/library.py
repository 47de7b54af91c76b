"""A library of C takes memory from the CUDA runtime itself, beside PyTorch, which goes on."""
import ctypes
import os

import torch

from oom_truth import tell, truth

library = ctypes.CDLL(os.environ["OOM_LIBRARY"])
library.take.argtypes, library.take.restype = [ctypes.c_size_t], ctypes.c_int
ours = torch.empty(300 << 20, dtype=torch.uint8, device="cuda")
assert library.take(800 << 20) == 0
result = library.take(900 << 20)  # asks
assert result == 2  # cudaErrorMemoryAllocation
tell(truth(900 << 20))
after = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
