"""Evaluation forgets no_grad, and gathers logits with their graphs."""
import sys

import torch
from torch import nn

from oom_truth import watch

REMEDY = "remedy" in sys.argv
model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(6)], nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
watch()
for _ in range(8):
    model(torch.randn(2048, 1024, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
logits = []
with torch.set_grad_enabled(not REMEDY):
    for _ in range(40):
        x = torch.randn(2048, 1024, device="cuda")
        logits.append(model(x))  # asks
