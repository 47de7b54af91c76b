"""Training grows layer by layer (progressive growing), then stays."""
import torch
from torch import nn

from leak_truth import STEPS, batch, train_step


def main(probe):
    model = nn.Sequential(nn.Linear(256, 256)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        if step in (4, 8):
            layer = nn.Linear(256, 256).cuda()
            model.append(layer)
            opt.add_param_group({"params": layer.parameters()})
        train_step(model, opt, batch())
        probe.step()
