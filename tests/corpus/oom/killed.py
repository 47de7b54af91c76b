"""Memory runs out, the script catches it and goes on, and later something else kills the process."""
import os
import signal

import torch

from oom_truth import watch

held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
watch()
try:
    more = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")  # asks
except torch.OutOfMemoryError:
    pass
others = [torch.ones(1 << 20, device="cuda") for _ in range(10)]
os.kill(os.getpid(), signal.SIGKILL)
