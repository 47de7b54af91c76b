"""In notebook style: globals, evaluation in a cell of its own without no_grad, each batch's predictions kept."""
import torch
from torch import nn

from leak_truth import STEPS

predictions = []
net = opt = None


def train(x):
    opt.zero_grad()
    net(x).pow(2).mean().backward()
    opt.step()


def look(x):
    predictions.append(net(x))  # LEAK


def main(probe):
    global net, opt
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2)).cuda()
    opt = torch.optim.RMSprop(net.parameters())
    for _ in range(STEPS):
        train(torch.randn(32, 64, device="cuda"))
        look(torch.randn(100, 64, device="cuda"))
        probe.step()
