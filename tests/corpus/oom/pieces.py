"""Long sequences come first; the features of shorter ones stay in their places: what is free lies in pieces."""
import sys

import torch

from oom_truth import watch

if "remedy" in sys.argv:
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
watch()
longest = [torch.empty(24 << 20, dtype=torch.uint8, device="cuda") for _ in range(40)]
longest.clear()
features = [torch.empty((24 + n % 3) << 19, dtype=torch.uint8, device="cuda") for n in range(40)]
whole = torch.empty(1050 << 20, dtype=torch.uint8, device="cuda")  # asks
