"""A running mean of a metric that nothing calls backward on, with its graph."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net


class Meter:
    def __init__(self):
        self.avg = 0

    def update(self, value):
        self.avg = 0.9 * self.avg + 0.1 * value


def main(probe):
    net = nn.Sequential(small_net(), nn.Softmax(-1))
    optimizer = torch.optim.Adam(net.parameters())
    meter = Meter()
    for _ in range(STEPS):
        target = torch.zeros(32, 64).cuda()
        x = batch()
        loss = (net(x) - target).abs().mean()
        calibration = net(x * 0.5).std()  # LEAK
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(calibration)
        probe.step()
