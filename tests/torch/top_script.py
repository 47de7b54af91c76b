"""Trains a little, at random, and stands still after each turn: prints torch's own counters, and goes on at each line of input."""
import json
import random
import sys

import torch

choose = random.Random(7)
DEVICES = range(torch.cuda.device_count())
models = [torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).to(f"cuda:{i}") for i in DEVICES]
optimizers = [torch.optim.AdamW(model.parameters()) for model in models]
kept = []


def train(device):
    x = torch.randn(choose.choice([8, 64, 512, 4096]), 256, device=f"cuda:{device}")
    models[device](x).sum().backward()
    optimizers[device].step()
    optimizers[device].zero_grad(set_to_none=choose.random() < 0.5)


def keep(device):
    kept.append(torch.empty(choose.randrange(1, 40 << 20), dtype=torch.uint8, device=f"cuda:{device}"))


def drop(_):
    if kept:
        del kept[choose.randrange(len(kept))]


def empty_cache(_):
    torch.cuda.empty_cache()


def empty(device):
    kept.clear()
    empty_cache(device)


def counters(device):
    free, total = torch.cuda.mem_get_info(device)
    return {"allocated": torch.cuda.memory_allocated(device), "reserved": torch.cuda.memory_reserved(device),
            "max_allocated": torch.cuda.max_memory_allocated(device), "max_reserved": torch.cuda.max_memory_reserved(device),
            "used": total - free, "total": total, "uuid": f"GPU-{torch.cuda.get_device_properties(device).uuid}"}


for _ in sys.stdin:
    for _ in range(choose.randrange(1, 8)):
        choose.choice([train, train, keep, keep, drop, empty_cache])(choose.choice(DEVICES))
    if choose.random() < 0.1:
        empty(0)
    torch.cuda.synchronize()
    print(json.dumps([counters(device) for device in DEVICES]), flush=True)
