"""What servers read of the GPU to go on, and no kernel computes: a request gets one token in each iteration. And inspections are asked for
once the engine works: a dry run is too short for those that come by themselves to see its pool."""
import ctypes

from . import around

ASKED = (4, 32)  # after so many iterations


def fill(tensor, value):
    (ctypes.c_int32 * tensor.numel()).from_address(tensor.data_ptr())[:] = [value] * tensor.numel()


def working():
    """A function to be called after each iteration of the engine."""
    inspect = getattr(ctypes.CDLL(None), "vramtrace_inspect", None)
    iterations = 0

    def after():
        nonlocal iterations
        iterations += 1
        if inspect and iterations in ASKED:
            inspect(b"the engine works")

    return after


def install(module):
    """vLLM's counts of tokens that were sampled, and of those that were rejected; what SGLang does with the results of an iteration."""
    worked = working()

    def after(result, args, kwargs):
        for tensor, value in zip(result or (), (1, 0)):
            fill(tensor, value)
        worked()

    def process_batch_result(self, *args, **kwargs):
        worked()
        return own(self, *args, **kwargs)

    if module.__name__ == "sglang.srt.managers.scheduler":
        own, module.Scheduler.process_batch_result = module.Scheduler.process_batch_result, process_batch_result
    else:
        module.get_num_sampled_and_rejected = around()(lambda *_: None, module.get_num_sampled_and_rejected, after)
