"""PyTorch's own recorders, as the programs here start them, and the counting of instructions."""
import contextlib
import os
import subprocess

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


@contextlib.contextmanager
def counted():
    """Instructions are counted, below valgrind --tool=callgrind --instr-atstart=no."""
    def turn(state):
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run(["callgrind_control", "-i", state, str(os.getpid())], check=True, env=environment, stdout=subprocess.DEVNULL)
    turn("on")
    yield
    turn("off")
