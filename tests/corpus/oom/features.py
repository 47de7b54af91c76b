"""No training: the features of a data set are collected on the GPU, batch by batch. Remedy: cpu()."""
import sys

import torch
from torch import nn

from oom_truth import watch

backbone = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 4096)).cuda().eval()
watch()
features = []
with torch.inference_mode():
    for _ in range(24):
        batch = torch.randn(8192, 512, device="cuda")
        found = backbone(batch)  # asks
        features.append(found.cpu() if "remedy" in sys.argv else found)
        del batch, found
