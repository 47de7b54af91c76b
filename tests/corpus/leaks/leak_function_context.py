"""An own Function that stores its output on ctx instead of with save_for_backward: a cycle through C++."""
import gc

import torch
from torch import nn

from leak_truth import STEPS, batch


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x.clamp(-1, 1)  # LEAK
        ctx.out = out
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.out.abs() < 1)


class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(256, 256), nn.Linear(256, 4)

    def forward(self, x):
        return self.leave(Clamp.apply(self.enter(x)))


def main(probe):
    gc.collect()
    gc.disable()
    net = Quantized().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(batch(128)).mean().backward()
        optimizer.step()
        probe.step()
