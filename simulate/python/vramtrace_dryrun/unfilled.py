"""Large tensors of real numbers on the CPU are neither filled nor copied: their pages stay untouched, so that the weights of a large model
cost no host memory on their way to a GPU. Nor are they decomposed or multiplied into large ones, which takes minutes for each weight: the
results are zeros. At the dispatcher's CPU kernels, where every way of initialising arrives."""
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


def install(torch):
    if not hasattr(torch.library, "get_kernel"):
        return
    library = torch.library.Library("aten", "IMPL")
    install.library = library  # registered as long as it lives

    def is_large(tensor):
        return isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel() * tensor.element_size() >= LARGE

    def large(tensor):
        return is_large(tensor) and tensor.is_contiguous()

    def as_tensor(value, like):
        """A number that C++ had wrapped arrives as a Python number."""
        return value if isinstance(value, torch.Tensor) else torch.scalar_tensor(value, dtype=torch.result_type(like, value))

    def override(name, make):
        try:
            own = torch.library.get_kernel(f"aten::{name}", "CPU")
        except RuntimeError:
            return
        library.impl(name, make(own.call_boxed), "CPU", with_keyset=True, allow_override=True)

    def fill(own):
        def kernel(keyset, tensor, *args, **kwargs):
            if not large(tensor):
                return own(keyset, tensor, *args, **kwargs)
            forget(tensor)
            return tensor
        return kernel

    def change(own):
        def kernel(keyset, tensor, other, *args, **kwargs):
            return tensor if large(tensor) else own(keyset, tensor, as_tensor(other, tensor), *args, **kwargs)
        return kernel

    def copy(own):
        def kernel(keyset, tensor, *args, **kwargs):
            device, dtype = kwargs.get("device"), kwargs.get("dtype")
            if large(tensor) and (device is None or device.type == "cpu") and (dtype is None or dtype.is_floating_point):
                return torch.empty(tensor.shape, dtype=dtype or tensor.dtype)
            return own(keyset, as_tensor(tensor, torch.empty(0, dtype=torch.bool)), *args, **kwargs)
        return kernel

    def skip(operator, factors=None):
        """Nothing is computed if the first argument is large, or FACTORS and what they make."""
        def on_meta(value):
            if not isinstance(value, torch.Tensor):
                return value
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")

        def make(own):
            def kernel(keyset, *args, **kwargs):
                if not all(map(is_large, args[factors or slice(1)])):
                    return own(keyset, *args, **kwargs)
                shapes = operator(*map(on_meta, args), **kwargs)
                if factors and not is_large(shapes):
                    return own(keyset, *args, **kwargs)
                made = [torch.empty_strided(one.size(), one.stride(), dtype=one.dtype).zero_()
                        for one in (shapes if isinstance(shapes, tuple) else (shapes,))]
                return tuple(made) if isinstance(shapes, tuple) else made[0]
            return kernel
        return make

    for name in FILLS:
        override(name, fill)
    for name in DECOMPOSITIONS:
        override(name, skip(getattr(torch.ops.aten, name).default))
    for name, factors in PRODUCTS.items():
        override(name, skip(getattr(torch.ops.aten, name).default, factors))
    for name in CHANGES:
        override(name, change)
    for name in ("_to_copy", "clone"):
        override(name, copy)
