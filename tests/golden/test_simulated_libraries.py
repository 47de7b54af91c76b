"""NVIDIA's libraries as simulate/library.py makes them: all that a release exports is there, and answers are written."""
import ctypes
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "simulate")]
import library  # noqa: E402
from helpers import BUILD, RUN  # noqa: E402

SIMULATE = BUILD / "simulate"
FILES = [line.split() for line in subprocess.run([sys.executable, ROOT / "simulate/library.py", "list"], capture_output=True, text=True,
                                                 check=True).stdout.splitlines()]


@pytest.mark.parametrize("file,name", FILES, ids=lambda word: word)
def test_all_functions_are_there(file, name):
    symbols = subprocess.run(["nm", "-D", "--defined-only", SIMULATE / file], capture_output=True, text=True, check=True).stdout
    there = {line.split()[-1].partition("@")[0] for line in symbols.splitlines()}
    told = library.of_file(name, file)
    assert told and set(told) <= there
    versions = {version for _, version in told.values() if version}
    assert versions <= there | {word.partition("@")[2].lstrip("@") for line in symbols.splitlines() for word in line.split()[-1:]}


def loaded(file):
    return ctypes.CDLL(str(SIMULATE / file))


@pytest.mark.parametrize("file,make,end", [
    ("libcublas.so.12", "cublasCreate_v2", "cublasDestroy_v2"), ("libcublas.so.13", "cublasCreate_v2", "cublasDestroy_v2"),
    ("libcublasLt.so.13", "cublasLtCreate", "cublasLtDestroy"), ("libcudnn.so.9", "cudnnCreate", "cudnnDestroy"),
    ("libcusolver.so.12", "cusolverDnCreate", "cusolverDnDestroy"), ("libcusparse.so.12", "cusparseCreate", "cusparseDestroy")])
def test_each_handle_is_its_own(file, make, end):
    """PyTorch has a workspace for each."""
    functions, handles = loaded(file), [ctypes.c_void_p() for _ in range(3)]
    for handle in handles:
        assert getattr(functions, make)(ctypes.byref(handle)) == 0
    assert len({handle.value for handle in handles}) == 3 and all(handle.value for handle in handles)
    for handle in handles:
        assert getattr(functions, end)(handle) == 0


def test_answers_are_zeros():
    """Else programs take what was there before for a size."""
    size, number = ctypes.c_size_t(2**60), ctypes.c_int(7)
    assert loaded("libcufft.so.12").cufftGetSize(1, ctypes.byref(size)) == 0 and size.value == 0
    assert loaded("libcusolver.so.12").cusolverDnSpotrf_bufferSize(None, 0, 8, None, 8, ctypes.byref(number)) == 0 and number.value == 0


OPERATORS = """
import torch
x = torch.randn(32, 32, device="cuda")
torch.fft.fft(x), torch.linalg.svd(x), torch.linalg.cholesky(x), torch.linalg.eigh(x), torch.linalg.qr(x), torch.linalg.solve(x, x)
torch.nn.Conv2d(3, 8, 7).cuda()(torch.randn(2, 3, 64, 64, device="cuda")).sum().backward()
torch.nn.ConvTranspose2d(3, 8, 7).cuda()(torch.randn(2, 3, 64, 64, device="cuda")).sum().backward()
torch.nn.BatchNorm2d(3).cuda()(torch.randn(2, 3, 64, 64, device="cuda")).sum().backward()
torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).cuda()(torch.randn(2, 16, 64, device="cuda")).sum().backward()
print(torch.cuda.max_memory_allocated() < 64 << 20)
"""


def test_operators_of_every_library():
    """Those whose work areas the libraries tell."""
    done = subprocess.run([*RUN, "python", "-W", "ignore", "-c", OPERATORS], capture_output=True, text=True, timeout=300)
    if "No module named 'torch'" in done.stderr:
        pytest.skip("no PyTorch")
    assert done.stdout == "True\n", done.stderr
