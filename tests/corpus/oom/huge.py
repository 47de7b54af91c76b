"""One tensor that no card would hold."""
import torch

from oom_truth import watch

small = torch.ones(1000, 1000, device="cuda")
watch()
product = torch.empty(1 << 20, 1 << 18, device="cuda")  # asks
