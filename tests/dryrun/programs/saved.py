"""Saves a large tensor of the GPU and a small one, and loads them: what each file has, and takes."""
import os
import sys

import torch


def tell(name, load):
    if sys.argv[1:]:
        return
    loaded = load(name)
    status = os.stat(name)
    print(name, tuple(loaded["large"].shape), loaded["small"].tolist(), status.st_size >> 20, status.st_blocks * 512 < 1 << 20)


state = {"large": torch.zeros(16 << 20, device="cuda"), "small": torch.arange(10.0, device="cuda")[3:6]}
torch.save(state, "x.pt")
tell("x.pt", torch.load)
try:
    from safetensors.torch import load_file, save_file
    save_file(state, "x.safetensors")
    tell("x.safetensors", load_file)
except ImportError:
    pass
