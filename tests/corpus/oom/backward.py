"""Forward fits, its backward does not."""
import torch

from oom_truth import watch

weight = torch.randn(64 << 20, device="cuda", requires_grad=True)
filler = torch.empty(1150 << 20, dtype=torch.uint8, device="cuda")
doubled = weight * 2  # asks
loss = doubled.sum()
del doubled
more = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
watch()
loss.backward()
