#!/usr/bin/env python3
"""FSDP, of both kinds, as the first of four processes; keeps what it gathered until backward.

    gathered_script.py flat|tensors OUT

Writes to OUT, as JSON, the bytes of the blocks that hold gathered parameters at the mark `gathered`, and their names.
"""
import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

import models
import train_script


def make(kind):
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 128)).cuda()
    if kind == "tensors":
        return fully_shard(model, reshard_after_forward=False)
    return FullyShardedDataParallel(model, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP, use_orig_params=True, device_id=0)


def holding(tensors):
    """Bytes of the blocks that hold them."""
    addresses = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    return sum(block["size"] for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]
               if block["address"] in addresses and block["state"] == "active_allocated")


def main():
    kind, out = sys.argv[1:]
    models.settings()
    dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    model = make(kind)
    optimizer = torch.optim.AdamW(model.parameters())
    inspect = train_script.load_mark("vramtrace_inspect")
    for step in range(3):
        loss = model(torch.randn(32, 256).to("cuda")).sum()
        if step == 1:
            truth = {"bytes": holding(model.parameters()), "names": [name for name, _ in model.named_parameters()]}
            inspect("gathered")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    train_script.load_mark()("sharded")
    with open(out, "w") as file:
        json.dump(truth, file)
    models.finish_backward()


if __name__ == "__main__":
    main()
