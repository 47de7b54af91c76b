"""Large tensors of real numbers on the CPU are neither filled nor copied: their pages stay untouched, so that the weights of a large model
cost no host memory on their way to a GPU. Nor are they decomposed or multiplied into large ones, which takes minutes for each weight: the
results are zeros. At the dispatcher's CPU kernels, where every way of initialising arrives; in older PyTorch at BackendSelect, together
with values."""
import ctypes

LARGE = 4 << 20  # bytes
PAGE, DONTNEED = 4096, 4
FILLS = """normal_ uniform_ random_ random_.from random_.to exponential_ bernoulli_.float log_normal_ geometric_ cauchy_ fill_.Scalar
    zero_ erfinv_ clamp_""".split()
CHANGES = "mul_.Tensor add_.Tensor sub_.Tensor div_.Tensor".split()
DECOMPOSITIONS = """_linalg_svd linalg_qr _linalg_eigh linalg_eig linalg_cholesky_ex linalg_lu linalg_lu_factor_ex linalg_inv_ex
    _linalg_solve_ex""".split()
PRODUCTS = {"mm": slice(2), "bmm": slice(2), "addmm": slice(1, 3), "baddbmm": slice(1, 3)}  # where their factors are


def forget(tensor):
    """Zeros without touching: whole pages are given back."""
    start = tensor.data_ptr()
    first, end = -(-start // PAGE) * PAGE, (start + tensor.nbytes) // PAGE * PAGE
    if end > first:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), DONTNEED)


def instead(torch):
    """{operator: what gives its result for large tensors, None for others}"""
    def large(tensor):
        return (isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and tensor.is_floating_point()
                and tensor.numel() * tensor.element_size() >= LARGE)

    def fill(tensor, *args, **kwargs):
        if not large(tensor) or not tensor.is_contiguous():
            return None
        forget(tensor)
        return tensor

    def change(tensor, *args, **kwargs):
        return tensor if large(tensor) and tensor.is_contiguous() else None

    def copy(tensor, *args, **kwargs):
        if not large(tensor) or not tensor.is_contiguous():
            return None
        device, dtype = kwargs.get("device") or tensor.device, kwargs.get("dtype") or tensor.dtype
        if device.type == "cpu" and dtype.is_floating_point:
            return torch.empty(tensor.shape, dtype=dtype)
        return None

    def copy_into(tensor, other, *args, **kwargs):
        return tensor if large(tensor) and tensor.is_contiguous() and large(other) else None

    def on_meta(value):
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")

    def skip(name, factors=None):
        """Nothing is computed if the first argument is large, or FACTORS and what they make."""
        operator = getattr(torch.ops.aten, name).default

        def kernel(*args, **kwargs):
            if not all(map(large, args[factors or slice(1)])):
                return None
            shapes = operator(*map(on_meta, args), **kwargs)
            if factors and shapes.numel() * shapes.element_size() < LARGE:
                return None
            made = [torch.empty_strided(one.size(), one.stride(), dtype=one.dtype).zero_()
                    for one in (shapes if isinstance(shapes, tuple) else (shapes,))]
            return tuple(made) if isinstance(shapes, tuple) else made[0]
        return kernel

    # _to_copy has a kernel at BackendSelect already: what it calls.
    copies = {"clone": copy, "_to_copy": copy} if hasattr(torch.library, "get_kernel") else {"clone": copy, "copy_": copy_into}
    return {**copies, **dict.fromkeys(FILLS, fill), **dict.fromkeys(CHANGES, change),
            **{name: skip(name) for name in DECOMPOSITIONS if hasattr(torch.ops.aten, name)},
            **{name: skip(name, factors) for name, factors in PRODUCTS.items()}}


def install(torch):
    if not hasattr(torch.library, "get_kernel"):
        return  # values.py asks at its own kernels
    library = torch.library.Library("aten", "IMPL")
    install.library = library  # registered as long as it lives

    def as_tensor(value, like):
        """A number that C++ had wrapped arrives as a Python number."""
        return value if isinstance(value, torch.Tensor) else torch.scalar_tensor(value, dtype=torch.result_type(like, value))

    def override(name, ours):
        try:
            own = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed
        except RuntimeError:
            return

        def kernel(keyset, tensor, *args, **kwargs):
            result = ours(tensor, *args, **kwargs)
            if result is not None:
                return result
            if name in CHANGES:
                args = (as_tensor(args[0], tensor), *args[1:])
            elif not isinstance(tensor, torch.Tensor):
                tensor = as_tensor(tensor, torch.empty(0, dtype=torch.bool))
            return own(keyset, tensor, *args, **kwargs)
        library.impl(name, kernel, "CPU", with_keyset=True, allow_override=True)

    for name, ours in instead(torch).items():
        override(name, ours)
