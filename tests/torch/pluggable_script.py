"""Trains with an allocator of the program's own (pluggable.c), whose books at each mark are the truth.

    pluggable_script.py LIBRARY direct|pooled|mempool|mempool-own TRUTH
"""
import ctypes
import json
import sys

import torch
from torch import nn

sys.path.insert(0, __file__.rpartition("/")[0])
from train_script import load_mark

library, kind, path = sys.argv[1:]
numbers, place = (ctypes.c_uint64 * 5)(), (ctypes.c_uint64 * 2)()
mark, truth = load_mark(), {}
books = ctypes.CDLL(library)
own = kind in ("direct", "pooled")
allocator = None
if kind != "mempool":
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        library, *(f"{kind if own else 'direct'}_{what}" for what in ("allocate", "release")))
if own:
    torch.cuda.memory.change_current_allocator(allocator)


def counters():
    if own:
        books.books(numbers)
        blocks = []
        for i in range(numbers[0]):
            books.block_at(ctypes.c_size_t(i), place)
            blocks.append(list(place))
        return {"blocks": sorted(blocks), "block_bytes": numbers[1], "peak_bytes": numbers[2], "made": numbers[3],
                "chunk_bytes": numbers[4]}
    return {"blocks": sorted([block["address"], block["size"]] for segment in torch.cuda.memory_snapshot()
                             for block in segment["blocks"] if block["state"].startswith("active")),
            "block_bytes": torch.cuda.memory_allocated(), "peak_bytes": torch.cuda.max_memory_allocated(),
            "chunk_bytes": torch.cuda.memory_reserved()}


def take(name):
    mark(name)
    truth[name] = counters()


def train():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    truth["parameters"] = sum(p.numel() * 4 for p in model.parameters())
    for step in range(4):
        data = torch.randn(64, 300, device="cuda")
        loss = model(data).sum()
        take(f"forward{step}")
        loss.backward()
        take(f"backward{step}")
        optimizer.step()
        take(f"step{step}")
        del loss
        optimizer.zero_grad()
    del data
    take("left")
    return model, optimizer


if own:
    kept = train()
else:
    pool = torch.cuda.MemPool(allocator.allocator()) if allocator else torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept = train()
    outside = torch.ones(100, device="cuda")
    take("outside")
with open(path, "w") as out:
    json.dump(truth, out)
