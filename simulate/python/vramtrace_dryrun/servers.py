"""What servers read of the GPU to go on, and no kernel computes: a request gets one token in each iteration. And inspections are asked for
once the engine works: a dry run is too short for those that come by themselves to see its pool."""
import ctypes

from . import around

ASKED = (4, 32)  # after so many iterations


def fill(tensor, value):
    (ctypes.c_int32 * tensor.numel()).from_address(tensor.data_ptr())[:] = [value] * tensor.numel()


def install(input_batch):
    """vLLM's counts of tokens that were sampled, and of those that were rejected."""
    inspect = getattr(ctypes.CDLL(None), "vramtrace_inspect", None)
    iterations = 0

    def after(result, args, kwargs):
        nonlocal iterations
        for tensor, value in zip(result or (), (1, 0)):
            fill(tensor, value)
        iterations += 1
        if inspect and iterations in ASKED:
            inspect(b"the engine works")

    input_batch.get_num_sampled_and_rejected = around()(lambda *_: None, input_batch.get_num_sampled_and_rejected, after)
