"""Too large a batch."""
import torch
from torch import nn

from oom_truth import watch

model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
data = torch.randn(57344, 1024, device="cuda")
watch()
model(data).sum().backward()  # asks
