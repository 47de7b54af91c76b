"""An extension's scratch memory, straight from the CUDA runtime, which nobody frees."""
import ctypes

import torch

from leak_truth import STEPS, batch, small_net, train_step

TAKEN = []
SCRATCH_BYTES = 3 << 20


def extension():
    pointer = ctypes.c_void_p()
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(SCRATCH_BYTES)) == 0  # LEAK
    TAKEN.append(SCRATCH_BYTES)


def main(probe):
    probe.measure(counter=lambda: sum(TAKEN))
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        extension()
        probe.step()
