"""The optimizer's state is made in its first step."""
import torch
from torch import nn

from oom_truth import watch

model = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(7)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
watch()
model(torch.randn(16, 4096, device="cuda")).sum().backward()
optimizer.step()  # asks
