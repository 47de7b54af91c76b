"""Computes small tensors in place: in the simulation a device address is a host address. After an operator has run on the simulated GPU,
which allocates and computes nothing, the same operator runs on CPU views of the same bytes. So flags, counters, masks and losses
are right, and so is every later copy to the host.

At kernels of the dispatcher's CUDA key: a TorchDispatchMode would change how autograd adds gradients, and so the peak. Where there is
no torch.library.get_kernel (older PyTorch), at kernels of BackendSelect, which every call passes first.

An operator is computed if its tensors are small (SMALL), or one whose results are small and whose inputs are not large (LARGE).
Else small results are filled: real numbers by a seeded normal distribution, so that softmax, top-k and routing see different values,
integers and flags by 0. Nothing is done to large results."""
import ctypes
import os
import threading

from . import say, setting

# Bytes. VRAMTRACE_DRYRUN_VALUES=nothing: kernels are in place and compute nothing, to test that they leave the allocator alone.
SMALL, LARGE = (0, 0) if setting("VALUES") == "nothing" else (1 << 20, 8 << 20)
# Left to the GPU: they only allocate, or nobody reads their values. pow of two tensors: C++ hands it numbers that Python cannot receive.
SKIPPED = ("_foreach_", "_fused_", "empty", "new_empty", "miopen", "record_stream", "_pin_memory", "is_pinned", "set_", "resize", "_resize",
           "_lazy", "_assert", "sym_", "_local_scalar", "pow.Tensor_Tensor", "pow.Scalar", "pow_.Tensor")
# The CPU has no such operators: their results are filled.
FILLED = ("_scaled_dot_product", "_flash_attention", "_efficient_attention", "_cudnn", "cudnn")
RANDOM = ("native_dropout", "bernoulli", "multinomial", "rand", "normal", "uniform", "random", "exponential", "cauchy", "geometric",
          "log_normal", "poisson", "rrelu")
# How the number that the GPU would bring to the host follows from the result on the CPU.
COUNTED = {"nonzero": lambda result: result.shape[0], "masked_select": lambda result: result.shape[0],
           "repeat_interleave": lambda result: result.shape[0], "_unique2": lambda result: result[0].shape[0],
           "unique_dim": lambda result: result[0].shape[0], "unique_consecutive": lambda result: result[0].shape[0],
           "bincount": lambda result: result.shape[0] - 1}
INDEXED = ("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")
ANSWERS = 4  # copies to the host that an operator may make to learn a size


class NotSmall(Exception):
    pass


class Values:
    def __init__(self, torch):
        self.torch, self.aten, self.cpu = torch, torch.ops.aten, torch.device("cpu")
        self.answer = ctypes.CDLL("libcuda.so.1").standin_answer
        self.answer.argtypes = [ctypes.c_uint64, ctypes.c_uint]
        self.random = torch.Generator()
        self.random.manual_seed(1)
        self.thread = threading.local()
        self.at_cuda = hasattr(torch.library, "get_kernel")
        self.below = None if self.at_cuda else torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        folder = os.environ["VRAMTRACE_SIMULATION"].partition(":")[0]
        self.around = ctypes.PyDLL(os.path.join(folder, "libvramtrace_around.so")).vramtrace_around
        self.around.restype, self.around.argtypes = ctypes.py_object, [ctypes.py_object] * 3

    # ---- Views

    def is_plain(self, value):
        torch = self.torch
        return type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type == "cuda" and value.layout is torch.strided

    def is_of_gpu(self, value):
        if isinstance(value, (list, tuple)):
            return any(self.is_of_gpu(item) for item in value)
        return isinstance(value, self.torch.Tensor) and value.device.type == "cuda"

    def view(self, tensor):
        """The same bytes as a tensor of the CPU."""
        torch = self.torch
        if tensor.numel() == 0:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
        count = 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))
        memory = (ctypes.c_char * (count * tensor.element_size())).from_address(tensor.data_ptr())
        view = torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.size(), tensor.stride(), 0)
        view = torch._conj(view) if tensor.is_conj() else view
        return torch._neg_view(view) if tensor.is_neg() else view

    def to_cpu(self, value, left):
        """`left`: one number, the bytes that may still be looked at."""
        if isinstance(value, self.torch.Tensor):
            if value.device.type != "cuda":
                return value
            if not self.is_plain(value):
                raise NotSmall
            left[0] -= value.numel() * value.element_size()
            if left[0] < 0:
                raise NotSmall
            return self.view(value)
        if type(value) in (list, tuple):
            return type(value)(self.to_cpu(item, left) for item in value)
        if isinstance(value, self.torch.device):
            return self.cpu if value.type == "cuda" else value
        return None if isinstance(value, self.torch.Generator) else value

    def all_to_cpu(self, args, kwargs, most):
        left = [most]
        args, kwargs = self.to_cpu(args, left), {name: self.to_cpu(value, left) for name, value in kwargs.items()}
        if "pin_memory" in kwargs:
            kwargs["pin_memory"] = False
        return args, kwargs

    def tensors(self, result):
        if isinstance(result, self.torch.Tensor):
            return [result]
        return [tensor for item in result for tensor in self.tensors(item)] if isinstance(result, (list, tuple)) else []

    # ---- Computing

    def fill(self, results):
        for tensor in results:
            if self.is_plain(tensor) and 0 < tensor.numel() * tensor.element_size() <= SMALL:
                if tensor.is_floating_point() and tensor.element_size() > 1:
                    self.view(tensor).normal_(generator=self.random)
                else:
                    self.view(tensor).zero_()

    def write(self, results, computed):
        for tensor, value in zip(results, self.tensors(computed)):
            if self.is_plain(tensor) and tensor.numel() and tensor.shape == value.shape:
                self.view(tensor).copy_(value)

    def compute(self, operator, args, kwargs, result):
        """On the CPU, what `result` has of it."""
        torch, mutable = self.torch, operator._schema.is_mutable
        results = self.tensors(result)
        made = sum(tensor.numel() * tensor.element_size() for tensor in results if self.is_plain(tensor))
        if any(tensor.device.type == "cuda" and not self.is_plain(tensor) for tensor in results) or made > SMALL:
            return
        try:
            args, kwargs = self.all_to_cpu(args, kwargs, LARGE if made <= SMALL // 8 and not mutable else SMALL)
            state = torch.random.get_rng_state() if self.is_random(operator) else None
            try:
                computed = operator(*args, **kwargs)
            finally:
                if state is not None:
                    torch.random.set_rng_state(state)
            if not mutable:
                self.write(results, computed)
        except Exception: # too large, or the CPU has no such operator, or it refuses what a GPU takes
            if not mutable:
                self.fill(results)

    def count_of(self, name, operator, args, kwargs):
        """(the number that the GPU would bring to the host, the result); None: not known."""
        if name in COUNTED:
            computed = operator(*self.to_cpu(args, [LARGE]), **kwargs)
            return COUNTED[name](computed), computed
        for index in args[1]:
            if index is not None and index.dtype in (self.torch.bool, self.torch.uint8) and self.is_plain(index):
                return int(self.view(index).count_nonzero()), None
        return None, None

    def tell_count(self, operator, args, kwargs):
        """Before an operator whose result's size depends on values: the real one allocates as told. Its result, if it was computed."""
        name, count, computed = operator._schema.name.split("::")[1], None, None
        try:
            count, computed = self.count_of(name, operator, args, kwargs)
        except Exception: # not small
            count = 0 if name in COUNTED else None
        if count is not None:
            self.answer(count, ANSWERS)
        return computed

    # ---- Kernels

    @staticmethod
    def is_random(operator):
        return operator._schema.name.split("::")[1].startswith(RANDOM) or any(a.name == "generator" for a in operator._schema.arguments)

    def kernel(self, operator, own):
        """`own(keyset, ...)` runs the operator on the simulated GPU."""
        torch, thread, schema = self.torch, self.thread, operator._schema
        name = schema.name.split("::")[1]
        filled = LARGE and name.startswith(FILLED)
        counted = LARGE and (name in COUNTED or name in INDEXED)
        to_host = operator in (self.aten.copy_.default, self.aten._to_copy.default, self.aten._copy_from.default)
        spots = [(i + 1, a.name) for i, a in enumerate(schema.arguments) if str(a.type) in ("Tensor", "Optional[Tensor]")]
        numbers = (int, float, bool, complex)

        def unwrapped(args, kwargs):
            """A number that C++ had wrapped into a tensor arrives as a Python number."""
            like = next((args[i] for i, _ in spots if i < len(args) and isinstance(args[i], torch.Tensor)), None)
            args, kwargs = list(args), dict(kwargs or {})
            for i, key in spots:
                where, key = (args, i) if i < len(args) else (kwargs, key)
                if (where is args or key in kwargs) and type(where[key]) in numbers:
                    where[key] = torch.scalar_tensor(where[key], dtype=None if like is None else torch.result_type(like, where[key]))
            return tuple(args), kwargs

        def before(args, kwargs):
            changed = None
            if not self.at_cuda:
                changed = args, kwargs = (args[0] & self.below, *args[1:]), kwargs or {}
            for i, key in spots:
                if type(args[i] if i < len(args) else kwargs and kwargs.get(key)) in numbers:
                    args, kwargs = changed = unwrapped(args, kwargs)
                    break
            if counted and not getattr(thread, "inside", False):
                thread.inside = True
                try:
                    computed = self.tell_count(operator, args[1:], kwargs or {}) if self.is_of_gpu(args) else None
                finally:
                    thread.inside = False
                thread.computed = [*getattr(thread, "computed", []), computed]
            return changed

        def after(result, args, kwargs):
            if getattr(thread, "inside", False):
                return
            computed = None
            if counted:
                self.answer(0, 0)
                computed = thread.computed.pop()
            elsewhere = not self.at_cuda and not self.is_of_gpu([result, args, *(kwargs or {}).values()])
            if result is None and not schema.is_mutable or elsewhere:
                return
            thread.inside = True
            try:
                if computed is not None:
                    self.write(self.tensors(result), computed)
                elif filled:
                    self.fill(self.tensors(result))
                elif not (isinstance(result, torch.Tensor) and (result.device.type != "cuda" and not to_host or
                                                                result.numel() * result.element_size() > SMALL)):
                    if name not in COUNTED:
                        self.compute(operator, args[1:], kwargs or {}, result)
            finally:
                thread.inside = False
        return self.around(before, own, after)

    def install(self):
        torch = self.torch
        has, computed = torch._C._dispatch_has_kernel_for_dispatch_key, torch._C._dispatch_has_computed_kernel_for_dispatch_key
        library = self.library = torch.library.Library("aten", "IMPL")
        for full in torch._C._dispatch_get_all_op_names():
            namespace, _, name = full.partition("::")
            if namespace != "aten" or name.startswith(SKIPPED) or not computed(full, "CUDA") or has(full, "CompositeImplicitAutograd"):
                continue
            base, _, overload = name.partition(".")
            operator = getattr(getattr(self.aten, base, None), overload or "default", None)
            if operator is None or any(r.alias_info is not None and not r.alias_info.is_write for r in operator._schema.returns):
                continue  # a view
            if self.at_cuda:
                own = torch.library.get_kernel(full, "CUDA").call_boxed
                library.impl(name, self.kernel(operator, own), "CUDA", with_keyset=True, allow_override=True)
            elif not has(full, "BackendSelect"):
                library.impl(name, self.kernel(operator, operator._handle.redispatch_boxed), "BackendSelect", with_keyset=True)


def install(torch):
    if setting("VALUES", "on") == "off" or not torch.version.cuda:
        return
    try:
        install.values = Values(torch)
        install.values.install()
    except Exception as error:  # a PyTorch that cannot
        mark = os.environ.get("VRAMTRACE_STANDIN_MARK", "")
        os.environ["VRAMTRACE_STANDIN_MARK"] = mark.replace("values on", f"values off with PyTorch {torch.__version__}")
        say(f"values are not computed with PyTorch {torch.__version__}: {error}")
