"""Another process takes most of the card meanwhile."""
import os

import torch

from oom_truth import watch

os.environ["VRAMTRACE_STANDIN_SHARED"] = os.environ["OOM_SHARED"]
wake, woken = os.pipe(), os.pipe()
if os.fork() == 0:  # before CUDA is used, so that it may use it
    os.close(wake[1])
    os.read(wake[0], 1)
    theirs = torch.empty(1100 << 20, dtype=torch.uint8, device="cuda")
    os.write(woken[1], b"x")
    os.read(wake[0], 1)  # until the other has ended
    os._exit(0)
os.close(woken[1])
os.close(wake[0])
ours = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
watch()
os.write(wake[1], b"x")
os.read(woken[0], 1)
more = torch.empty(400 << 20, dtype=torch.uint8, device="cuda")  # asks
