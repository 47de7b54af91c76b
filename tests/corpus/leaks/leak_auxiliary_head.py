"""The main loss goes backward; the graph of an auxiliary head on the same features does not."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net


def main(probe):
    trunk, head = small_net(out=256), nn.Linear(256, 8).cuda()
    auxiliary = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 128), nn.Tanh()).cuda()
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.1)
    scores = []
    for _ in range(STEPS):
        features = trunk(batch())
        scores.append(auxiliary(features.detach()).mean())  # LEAK
        head(features).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
