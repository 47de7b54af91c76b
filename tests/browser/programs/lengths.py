"""Trains examples/train.py's model on sentences of any length, as they come: blocks of ever other sizes leave holes between them."""
import random

import torch
from torch import nn
from train import Model

torch.backends.cuda.enable_cudnn_sdp(False)
random.seed(7)
model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for _ in range(12):
    tokens = torch.randint(0, 8192, (16, random.randrange(64, 512))).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
