"""What servers read of the GPU to go on, and no kernel computes: a request gets one token in each iteration."""
import ctypes

from . import around


def fill(tensor, value):
    (ctypes.c_int32 * tensor.numel()).from_address(tensor.data_ptr())[:] = [value] * tensor.numel()


def install(input_batch):
    """vLLM's counts of tokens that were sampled, and of those that were rejected."""
    def after(result, args, kwargs):
        for tensor, value in zip(result or (), (1, 0)):
            fill(tensor, value)

    input_batch.get_num_sampled_and_rejected = around()(lambda *_: None, input_batch.get_num_sampled_and_rejected, after)
