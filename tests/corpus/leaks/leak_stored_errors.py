"""Failed batches are noted with their exception."""
import torch

from leak_truth import STEPS, batch, small_net


class Bad(RuntimeError):
    pass


class Loop:
    def __init__(self):
        self.net = small_net()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.errors = []

    def forward(self, x):
        hidden = self.net(x)  # LEAK
        if hidden.shape[0] == 32:
            raise Bad("bad batch")
        return hidden

    def step(self, x):
        try:
            loss = self.forward(x).mean()
        except Bad as error:
            self.errors.append(error)
            loss = self.net(x[:16]).mean()
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()


def main(probe):
    loop = Loop()
    for _ in range(STEPS):
        loop.step(batch())
        probe.step()
