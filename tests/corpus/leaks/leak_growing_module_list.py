"""A network that gets another block each epoch, and is never pruned."""
import torch
from torch import nn


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(100, 128)
        self.blocks = nn.ModuleList()
        self.outlet = nn.Linear(128, 2)

    def grow(self):
        block = nn.Linear(128, 128).cuda()  # LEAK
        self.blocks.append(block)
        return block

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return self.outlet(x)


def main(probe):
    net = Growing().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.add_param_group({"params": list(net.grow().parameters())})
        net(torch.randn(10, 100, device="cuda")).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
