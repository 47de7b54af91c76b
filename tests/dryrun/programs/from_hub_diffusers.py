"""Loads a model of diffusers; prints what the GPU holds of it."""
import sys

import torch
from diffusers import UNet2DModel

model = UNet2DModel.from_pretrained(sys.argv[1], torch_dtype=torch.bfloat16).cuda()
print("held", torch.cuda.memory_allocated(), "parameters", sum(p.numel() for p in model.parameters()))
