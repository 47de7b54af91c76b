"""PyTorch's own recorders, as the programs here start them."""
import contextlib

import torch

NAMES = "python", "all", "profiler"


@contextlib.contextmanager
def start(name):
    if name == "profiler":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, with_stack=True,
                                    record_shapes=True):
            yield
        return
    if name:
        torch.cuda.memory._record_memory_history(stacks=name, max_entries=4_000_000)
    yield
