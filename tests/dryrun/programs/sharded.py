"""A sharded training for torchrun; the first rank prints what it saw."""
import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
from torch.distributed.fsdp import fully_shard  # noqa: E402

model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(16, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
total = torch.tensor([rank + 1.0], device="cuda")
dist.all_reduce(total)
peaks = [None] * dist.get_world_size()
dist.all_gather_object(peaks, torch.cuda.max_memory_allocated())
if rank == 0:
    print("sum", total.item(), "devices", torch.cuda.device_count(), "peaks", *peaks)
dist.destroy_process_group()
