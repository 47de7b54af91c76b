"""A plan of a math library in each step, never destroyed: the library takes its memory from CUDA itself."""
import ctypes
import os
import pathlib
import subprocess
import tempfile

import torch

from leak_truth import STEPS, batch, small_net, train_step

TAKEN = []
PLAN_BYTES = 3 << 20
SOURCE = pathlib.Path(__file__).resolve().parents[1] / "oom" / "library.c"


def build(folder):
    """A library named as cuFFT is, which asks the runtime as cuFFT does."""
    path = pathlib.Path(folder) / "libcufft.so.12"
    subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-o", path, SOURCE, "-ldl"], check=True)
    library = ctypes.CDLL(str(path))
    library.take.argtypes, library.take.restype = [ctypes.c_size_t], ctypes.c_int
    return library


def main(probe):
    probe.measure(counter=lambda: sum(TAKEN))
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)
        for _ in range(STEPS):
            train_step(model, optimizer, batch())
            assert library.take(PLAN_BYTES) == 0  # LEAK
            TAKEN.append(PLAN_BYTES)
            probe.step()
