"""The weights of each epoch are put aside on the card, to be averaged in the end."""
import copy
import sys

import torch
from torch import nn

from oom_truth import watch

REMEDY = "remedy" in sys.argv


class Averager:
    def __init__(self):
        self.snapshots = []

    def collect(self, model):
        state = model.state_dict()
        self.snapshots.append({k: v.cpu() for k, v in state.items()} if REMEDY else copy.deepcopy(state))


model = nn.Sequential(*[nn.Linear(3072, 3072, bias=False) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
averager = Averager()
watch()
for epoch in range(14):
    for _ in range(2):
        model(torch.randn(64, 3072, device="cuda")).square().mean().backward()  # asks
        optimizer.step()
        optimizer.zero_grad()
    averager.collect(model)
