#!/usr/bin/env python3
"""Trains with AdamW. identities_script.py whole|moved: what the second state of the large parameter does after each step: stays, or
waits on the host until the next one."""
import sys

import torch

import models


def main():
    moved = sys.argv[1] == "moved"
    models.settings()
    model = torch.nn.Sequential(torch.nn.Linear(1024, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        model(torch.randn(32, 1024, device="cuda")).sum().backward()
        state = optimizer.state[model[0].weight]
        if moved and state:
            state["exp_avg_sq"] = state["exp_avg_sq"].cuda()
        optimizer.step()
        if moved:
            state = optimizer.state[model[0].weight]
            state["exp_avg_sq"] = state["exp_avg_sq"].cpu()
        optimizer.zero_grad()
    print(torch.cuda.max_memory_allocated())


main()
