"""PyTorch itself refuses, by a limit that the script sets; the card has room."""
import torch
from torch import nn

from oom_truth import watch

torch.cuda.set_per_process_memory_fraction(0.25)
model = nn.Linear(2048, 2048).cuda()
data = torch.randn(16384, 2048, device="cuda")
watch()
first = model(data)
second = model(first)
third = model(second)  # asks
