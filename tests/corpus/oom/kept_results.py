"""An evaluation without gradients keeps every output on the GPU. Remedy: on the CPU."""
import sys

import torch
from torch import nn

from oom_truth import watch

net = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
watch()
for _ in range(5):
    net(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
results = []
with torch.no_grad():
    for _ in range(60):
        result = net(torch.randn(16384, 512, device="cuda"))  # asks
        results.append(result.cpu() if "remedy" in sys.argv else result)
