"""Two new streams in each step pack tensors of several sizes to be sent; nothing is kept."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def pack(sizes):
    with torch.cuda.stream(torch.cuda.Stream()):
        parts = [torch.zeros(size << 20, dtype=torch.uint8, device="cuda") for size in sizes]
        return sum(part.numel() for part in parts)


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        pack([24, 12])
        pack([16])
        probe.step()
