"""The driver refuses at first; PyTorch frees its cache and gets what it asked for."""
import torch

from oom_truth import watch

watch()
for size in (600, 700, 900):
    held = torch.empty(size << 20, dtype=torch.uint8, device="cuda")
    del held
blocks = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
