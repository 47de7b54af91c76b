"""12,000 tensors of many sizes, all alive, from a few lines; then half of them go."""
import torch


def keep(count, first):
    return [torch.empty(first + 512 * (i % 64), dtype=torch.uint8, device="cuda") for i in range(count)]


kept = [keep(4000, 512), keep(4000, 1024), keep(4000, 2048)]
del kept[1]
