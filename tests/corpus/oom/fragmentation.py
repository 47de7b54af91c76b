"""Every third block of 6 MiB stays, so that no segment can go back: enough is free, but nowhere in one piece."""
import torch

from oom_truth import watch

blocks = [torch.empty(6 << 20, dtype=torch.uint8, device="cuda") for _ in range(240)]
blocks = blocks[::3]
watch()
large = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")  # asks
