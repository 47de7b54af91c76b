"""A network that puts each step's features into an attribute of another name."""
import torch
from torch import nn

from leak_truth import STEPS, batch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(256, 256), nn.Linear(256, 8)
        self.calls = 0

    def forward(self, x):
        h = self.a(x).relu()
        setattr(self, f"feature_{self.calls}", h.detach().clone())  # LEAK
        self.calls += 1
        return self.b(h)


def main(probe):
    net = Net().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        net(batch()).pow(2).sum().backward()
        opt.step()
        opt.zero_grad()
        probe.step()
