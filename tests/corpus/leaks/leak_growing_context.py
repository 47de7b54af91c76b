"""A chat whose context is concatenated for ever, without backward."""
import torch

from leak_truth import STEPS, small_net


class Chat:
    def __init__(self):
        self.model = small_net(out=256).eval()
        self.context = torch.zeros(0, 256, device="cuda")

    @torch.no_grad()
    def say(self, text):
        answer = self.model(text)
        self.context = torch.cat([self.context, text, answer])  # LEAK
        return answer


def main(probe):
    chat = Chat()
    for _ in range(STEPS):
        chat.say(torch.randn(64, 256).cuda())
        probe.step()
