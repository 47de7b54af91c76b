"""Two page-locked buffers, used in turn, and one that is made anew in each step."""
import torch

from leak_truth import STEPS, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    buffers = [torch.empty(32, 256, pin_memory=True) for _ in range(2)]
    for number in range(STEPS):
        host = buffers[number % 2]
        host.copy_(torch.randn(32, 256))
        extra = torch.randn(32, 256).pin_memory()
        train_step(model, optimizer, (host + extra).cuda(non_blocking=True))
        probe.step()
