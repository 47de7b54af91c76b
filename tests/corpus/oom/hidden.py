"""Every fourth batch is too large, and the loop goes on without it: in forward, though nothing of it was forward before."""
import torch
from torch import nn

from oom_truth import watch

model = nn.Linear(4096, 4096).cuda()
optimizer = torch.optim.AdamW(model.parameters())
watch()
for step in range(14):
    inputs = torch.randn(72 << 10 if step % 4 == 3 else 1 << 12, 4096, device="cuda")
    try:
        model(inputs).relu().mean().backward()  # asks
        optimizer.step()
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
    optimizer.zero_grad()
    del inputs
