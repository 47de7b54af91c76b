"""A bot that appends each message to one context and never cuts it: no backward, so a growing tensor is noted, no more."""
import torch

from leak_truth import STEPS, small_net


class Bot:
    def __init__(self):
        self.net = small_net(out=256).eval()
        self.context = torch.zeros(0, 256, device="cuda")

    @torch.no_grad()
    def reply(self, message):
        self.context = torch.cat([self.context, self.net(message)])
        return self.context.mean(0)


def main(probe):
    bot = Bot()
    for _ in range(STEPS):
        bot.reply(torch.randn(64, 256, device="cuda"))
        probe.step()
