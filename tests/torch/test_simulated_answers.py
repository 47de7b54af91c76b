"""Operators of NVIDIA's libraries over the simulation: that they run, their results' shapes, and bytes where a model says them."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, RUN, run  # noqa: E402

pytestmark = pytest.mark.skipif(not RUN, reason="the answers of the simulated libraries")

# What a function keeps and the most that it has, in bytes as asked of the allocator.
BEGIN = """
import json, torch
def asked(what):
    return torch.cuda.memory_stats()[f"requested_bytes.all.{what}"]
def measured(function):
    torch.cuda.reset_peak_memory_stats()
    before = asked("current")
    result = function()
    return result, asked("current") - before, asked("peak") - before
found = {}
"""


def told(script, **settings):
    """What the script put into `found`."""
    return json.loads(run([PYTHON, "-W", "ignore", "-c", BEGIN + script + "\nprint(json.dumps(found))"], preload=False,
                          **settings).stdout.splitlines()[-1])


ATTENTION = """
from torch.nn.attention import SDPBackend, sdpa_kernel
B, H, S, D = 2, 16, 1024, 64
def tensors(heads, dtype, size):
    return [torch.randn(B, n, S, size, dtype=dtype, device="cuda", requires_grad=True) for n in (H, heads, heads)]
mask = torch.ones(B, 1, S, S, dtype=torch.bool, device="cuda")
cases = {"causal": {"is_causal": True}, "plain": {}, "grouped": {"is_causal": True, "enable_gqa": True}, "dropout": {"dropout_p": 0.1},
         "mask": {"attn_mask": mask}, "added": {"attn_mask": torch.zeros(B, 1, S, S, dtype=torch.bfloat16, device="cuda")},
         "half": {"dtype": torch.float16}, "wide": {"size": 256}, "any": {"is_causal": True}}
for name, options in cases.items():
    heads, size = 4 if name == "grouped" else H, options.pop("size", D)
    q, k, v = tensors(heads, options.pop("dtype", torch.bfloat16), size)
    attention = torch.nn.functional.scaled_dot_product_attention
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, *([SDPBackend.FLASH_ATTENTION] if name == "any" else [])]):
        out, kept, _ = measured(lambda: attention(q, k, v, **options))
        ones = torch.ones_like(out)
        _, _, backward = measured(lambda: out.backward(ones))
    assert out.shape == q.grad.shape and k.grad.shape == v.grad.shape == (B, heads, S, size)
    found[name] = kept - out.nbytes, backward - q.nbytes - k.nbytes - v.nbytes, B * H * S * 4, B * H * S * size * 4
"""


def test_attention_of_cudnn():
    """Kept: the softmax's sums and the random state; in backward, dQ in fp32 and a sum for each row."""
    for name, (kept, work, sums, accumulated) in told(ATTENTION, VRAMTRACE_STANDIN_GPU="h100-80gb").items():
        masks = 2 * 1024 * 1024 * 2 if name == "mask" else 0  # PyTorch makes a mask of numbers
        assert kept == sums + masks + 16, name
        assert work == accumulated + sums, name


WIDE = """
q, k, v = [torch.randn(2, 8, 512, 256, dtype=torch.bfloat16, device="cuda", requires_grad=True) for _ in range(3)]
torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
found["shape"] = q.grad.shape
"""


def test_attention_of_a_blackwell():
    assert told(WIDE, VRAMTRACE_STANDIN_GPU="b200")["shape"] == [2, 8, 512, 256]


RECURRENT = """
pack = torch.nn.utils.rnn.pack_padded_sequence
for cell in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    for options in ({}, {"num_layers": 2, "dropout": 0.5}, {"bidirectional": True, "batch_first": True},
                    {"num_layers": 2, "bidirectional": True}, *([{"proj_size": 16, "num_layers": 2}] if cell is torch.nn.LSTM else [])):
        for dtype in (torch.float32, torch.bfloat16):
            network = cell(48, 64, **options).cuda().to(dtype)
            x = torch.randn(5, 5, 48, device="cuda", dtype=dtype)
            width = options.get("proj_size", 64) * (2 if "bidirectional" in options else 1)
            y = network(x)[0]
            assert y.shape == (5, 5, width)
            y.sum().backward()
            network(pack(x, [5, 4, 4, 2, 1], batch_first="batch_first" in options))[0].data.sum().backward()
            assert all(weight.grad is not None for weight in network.parameters())
            assert network.eval()(x)[0].shape == (5, 5, width)
            if dtype is torch.float32:  # PyTorch does not keep others in one buffer
                assert network._flat_weights[0].untyped_storage().nbytes() == sum(weight.nbytes for weight in network.parameters())
for cell in (torch.nn.LSTM, torch.nn.GRU):
    network, x = cell(123, 320, 4).cuda(), torch.randn(250, 100, 123, device="cuda")
    state = torch.zeros(4, 100, 320, device="cuda")
    given = (state, state.clone()) if cell is torch.nn.LSTM else state
    (y, last), kept, peak = measured(lambda: network(x, given))
    last = sum(one.nbytes for one in last) if cell is torch.nn.LSTM else last.nbytes
    found[cell.__name__] = kept - y.nbytes - last, peak - kept
"""


def test_recurrent_networks():
    """Reserve and workspace as cuDNN answered on a P100 (pytorch/pytorch issue 2895)."""
    found = told(RECURRENT)
    for name, reserve, workspace in (("LSTM", 736000000, 17730560), ("GRU", 864000000, 13169920)):
        kept, work = found[name]
        assert (kept, work) == (reserve, workspace), name


FOURIER = """
def result(name, *arguments, **options):
    value, kept, peak = measured(lambda: getattr(torch.fft, name)(*arguments, **options))
    return list(value.shape), peak - value.untyped_storage().nbytes()
for dtype, complex_dtype in ((torch.float32, torch.complex64), (torch.float64, torch.complex128)):
    real, made = torch.randn(4, 64, 64, 64, device="cuda", dtype=dtype), torch.randn(4, 64, 64, 64, device="cuda", dtype=complex_dtype)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        of = real if name in ("rfft", "ihfft") else made
        for many in ("", "2", "n"):
            result(name + many, of, **({"dim": (1, 2, 3)} if many == "n" else {}))
torch.fft.fft2(torch.randn(8, 64, 64, device="cuda", dtype=torch.float16))
torch.fft.rfft(torch.randn(8, 64, device="cuda", dtype=torch.float16))
torch.stft(torch.randn(2, 16000, device="cuda"), 400, 160, window=torch.hann_window(400, device="cuda"), return_complex=True)
def zeros(*shape, dtype=torch.complex64):
    return torch.zeros(shape, dtype=dtype, device="cuda")
found["cupy"] = result("fftn", zeros(4, 64, 64, dtype=torch.complex128), dim=(1, 2))
found["arrayfire"] = result("fft2", zeros(100, 1500))
found["square"] = result("ifft2", zeros(4096, 3072))
found["real"] = result("rfft2", zeros(4, 256, 256, dtype=torch.float32))
found["line"] = result("fft", zeros(64, 256))
found["long line"] = result("fft", zeros(8, 8192))
found["prime"] = result("fft", zeros(8, 1009))
"""


def test_fourier_transforms():
    assert told(FOURIER) == {
        "cupy": [[4, 64, 64], 262144],  # as documented
        "arrayfire": [[100, 1500], 1200000],  # as published
        "square": [[4096, 3072], 4096 * 3072 * 8],
        "real": [[4, 256, 129], 4 * 256 * 129 * 8],
        "line": [[64, 256], 0],
        "long line": [[8, 8192], 8 * 8192 * 8],
        "prime": [[8, 1009], 2 * 8 * 2048 * 8]}


LINEAR = """
L = torch.linalg
functions = {
    "qr": L.qr, "svd": L.svd, "svdvals": L.svdvals, "eigh": L.eigh, "eigvalsh": L.eigvalsh, "eigvals": L.eigvals, "cholesky": L.cholesky,
    "lu": L.lu, "lu_factor": L.lu_factor, "inv": L.inv, "pinv": L.pinv, "ldl": L.ldl_factor, "solve": lambda a: L.solve(a, a),
    "lstsq": lambda a: L.lstsq(a, a), "triangular": lambda a: L.solve_triangular(a, a, upper=True),
    "reflectors": lambda a: L.householder_product(a, a[..., 0].contiguous()), "cholesky_solve": lambda a: torch.cholesky_solve(a, a),
    "ormqr": lambda a: torch.ormqr(a, a[..., 0].contiguous(), a), **{
    driver: lambda a, driver=driver: L.svd(a, driver=driver) for driver in ("gesvd", "gesvdj", "gesvda")}}
for dtype in (torch.float32, torch.float64, torch.complex64):
    for shape in ((64, 64), (600, 600), (4, 64, 64), (200, 64, 64)):
        a = torch.randn(shape, device="cuda", dtype=dtype)
        for name, function in functions.items():
            value = function(a)
            assert (value if isinstance(value, torch.Tensor) else value[0]).is_cuda, name
found["linear"] = len(functions)
at, dense = torch.tensor([[0, 1, 2], [2, 0, 1]], device="cuda"), torch.randn(3, 3, device="cuda", requires_grad=True)
values = torch.ones(3, device="cuda", requires_grad=True)
one = torch.sparse_coo_tensor(at, values, (3, 3))
rows = torch.sparse_csr_tensor(torch.arange(4, device="cuda"), at[1], values.detach(), (3, 3))
torch.sparse.mm(one, dense).sum().backward()
plain = dense.detach()
for product in (torch.sparse.mm(one, one), rows @ plain, rows @ rows, rows @ plain[0], torch.addmm(plain, rows, plain), rows + rows,
                torch.sparse.sampled_addmm(rows, plain, plain), rows.t() @ plain, torch.triangular_solve(plain, rows)[0]):
    assert product.shape in ((3, 3), (3,))
pattern = torch.tensor([0, 0, 1, 1], dtype=torch.float16, device="cuda").tile(128, 32)
found["structured"] = (torch.sparse.to_sparse_semi_structured(pattern) @ pattern).shape
"""


def test_linear_algebra():
    assert told(LINEAR) == {"linear": 21, "structured": [128, 128]}
