"""A checkpoint with optimizer state was read onto the card, and its variable lives on."""
import os
import sys
import tempfile

import torch
from torch import nn

from oom_truth import watch

model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(5)])
path = os.path.join(tempfile.mkdtemp(), "last.ckpt")
torch.save({"model": model.state_dict(), "ema": {k: v.clone() for k, v in model.state_dict().items()}}, path)
ckpt = torch.load(path, map_location="cpu" if "remedy" in sys.argv else "cuda")
os.unlink(path)
model.load_state_dict(ckpt["model"])
model.cuda()
opt = torch.optim.AdamW(model.parameters())
watch()
for _ in range(5):
    model(torch.randn(512, 4096, device="cuda")).mean().backward()
    opt.step()  # asks
    opt.zero_grad()
