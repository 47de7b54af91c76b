"""Trains a small transformer on several GPUs with DistributedDataParallel. One rank differs on purpose.

    vramtrace run -o traces/ torchrun --nproc-per-node 2 examples/ddp.py --odd 1
    vramtrace report traces/

--odd RANK gives that rank a batch of twice the size; --keep RANK keeps a tensor of each step in a list. With fewer GPUs
than ranks several ranks share one, which needs --backend gloo.
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self, width=256, layers=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, inputs):
        for layer in self.layers:
            inputs = layer(inputs)
        return self.head(inputs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--odd", type=int, default=-1, metavar="RANK")
    parser.add_argument("--keep", type=int, default=-1, metavar="RANK")
    arguments = parser.parse_args()

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group(arguments.backend)
    model = DistributedDataParallel(Model().cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    batch = arguments.batch * (2 if rank == arguments.odd else 1)
    kept = []
    for _ in range(arguments.steps):
        loss = model(torch.randn(batch, 128, 256, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == arguments.keep:
            kept.append(torch.ones(4 << 20, dtype=torch.uint8, device="cuda"))
    print(f"rank {rank}: peak {torch.cuda.max_memory_allocated() / 2**20:.2f} MiB", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
