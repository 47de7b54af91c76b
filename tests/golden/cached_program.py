"""Traces, made by hand, of programs whose framework reserves more memory with each step than its blocks need."""
from trace_file import ALLOC, CONTEXT_CREATE, DRIVER, FRAMEWORK, FREE, MARK, TraceFile

MIB = 1 << 20
STEPS, SEGMENT, EMPTY = 20, 20 * MIB, 32 * MIB  # what each step reserves; what is reserved and empty at the end
CAPTURE, CAPTURE_END, GRAPH, GRAPH_DESTROY = 28, 29, 30, 32
UNCOUNTED = 16

# The library that asks CUDA for memory in that framework (None: no native stacks), whether its blocks come with a total of
# its own (PyTorch's alone do), and what its documentation names: a setting against holes, and a call that empties the cache.
#   https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf
#   https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth (TensorFlow and XLA have no call)
#   https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/device/cuda/empty_cache_en.html
TORCH = ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "torch.cuda.empty_cache()")
PADDLE = (None, "paddle.device.cuda.empty_cache()")
FRAMEWORKS = {
    "torch": (b"libc10_cuda.so", True, TORCH),
    "torch without native stacks": (None, True, TORCH),
    "tensorflow": (b"libtensorflow_framework.so.2", False, ("TF_GPU_ALLOCATOR=cuda_malloc_async", None)),
    "jax": (b"xla_cuda_plugin.so", False, (None, None)),
    "paddle": (b"libphi_gpu.so", False, PADDLE),
    "paddle, older": (b"libpaddle.so", False, PADDLE),
    "rmm": (b"librmm.so", False, (None, None)),
    "a program's own": (b"libpool.so", False, (None, None)),
    "not known": (None, False, (None, None)),
}
NAMES = {word for *_, words in FRAMEWORKS.values() for word in words if word}


class Cached:
    def __init__(self, library, counted):
        self.trace, self.counted, self.reserved, self.blocks = TraceFile(), counted, 0, {}
        trace = self.trace
        trace.process([b"python", b"train.py"], b"/home/me", b"/usr/bin/python3")
        trace.device(0, 80 << 30, b"GPU")
        trace.string(1, b"vramtrace.step")
        trace.code(1, b"/home/me/train.py", b"main")
        for base, path in ((0x10000, b"libcudart.so.12"), (0x20000, library or b"lib.so"), (0x30000, b"python3")):
            trace.module(base, base + 0x1000, b"/usr/lib/" + path)
        trace.stack(1, native=[0x10010, 0x20010, 0x30010] if library else [], python=[(1, 0, 0x5000)])
        trace.event(CONTEXT_CREATE, DRIVER, address=1)

    def segment(self, address, size):
        self.reserved += size
        self.trace.event(ALLOC, DRIVER, address, size, stack=1)

    def told(self):
        return dict(detail=self.reserved, total=sum(self.blocks.values())) if self.counted else dict(flags=UNCOUNTED)

    def block(self, address, size):
        self.blocks[address] = size
        self.trace.event(ALLOC, FRAMEWORK, address, size, stack=1, **self.told())

    def free(self, address):
        size = self.blocks.pop(address)
        self.trace.event(FREE, FRAMEWORK, address, size if self.counted else 0, **self.told())


def write(path, library, counted, graph=False):
    """In each step a segment, most of which is free again, beside a block that stays: 19 MiB of 20 in one piece. At the end an empty
    segment; with `graph`, of a graph that is gone."""
    made = Cached(library, counted)
    for step in range(STEPS):
        address = (1 + step) << 32
        made.segment(address, SEGMENT)
        made.block(address, SEGMENT - MIB)
        made.block(address + SEGMENT - MIB, MIB)
        made.free(address)
        made.trace.event(MARK, detail=1)
    if graph:
        made.trace.event(CAPTURE, DRIVER, address=5, stack=1)
    made.segment(1 << 40, EMPTY)
    made.block(1 << 40, EMPTY)
    if graph:
        made.trace.event(CAPTURE_END, DRIVER, address=5, detail=6)
        made.trace.event(GRAPH, DRIVER, address=7, detail=6)
    made.free(1 << 40)
    if graph:
        made.trace.event(GRAPH_DESTROY, DRIVER, address=7)
    return made.trace.write(path)
