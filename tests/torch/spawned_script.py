"""A job without a launcher: torch.multiprocessing.spawn tells each process its rank, and where they meet.

    spawned_script.py FOLDER URL RANKS
"""
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn


def work(rank, folder, url, ranks):
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=ranks)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        model(torch.randn(64 * (rank + 1), 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    (pathlib.Path(folder) / f"{os.getpid()}.json").write_text(
        json.dumps({"rank": rank, "store": url, "allocated_peak": torch.cuda.max_memory_allocated()}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1], sys.argv[2], int(sys.argv[3])), nprocs=int(sys.argv[3]))
