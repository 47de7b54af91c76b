"""Loads a model by its name and trains a step; prints what the GPU holds of it."""
import sys

import torch
from transformers import AutoModelForCausalLM

where = {"cache_dir": sys.argv[2]} if len(sys.argv) > 2 else {}
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16, **where).cuda()
print("held", torch.cuda.memory_allocated(), "parameters", sum(p.numel() for p in model.parameters()))
x = torch.randint(0, 100, (2, 32), device="cuda")
print("loss is a number", model(input_ids=x, labels=x).loss.isfinite().item())
