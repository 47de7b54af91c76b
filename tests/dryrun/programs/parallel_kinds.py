"""A small language model, two steps in each kind of parallelism; each rank adds its counters to a file, as a line of JSON for each kind.

parallel_kinds.py KIND[,KIND...] FILE"""
import gc
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

WIDTH, LAYERS, WORDS, BATCH, HEAD = 256, 8, 4096, 4, 32
LENGTH = max(256, 64 * int(os.environ["WORLD_SIZE"]))  # context parallel: attention takes half of a rank's part, multiples of 32
COUNTERS = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "allocation.all.allocated", "allocated_bytes.all.allocated",
            "segment.all.allocated")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        for name, inner, outer in (("q", WIDTH, WIDTH), ("k", WIDTH, WIDTH), ("v", WIDTH, WIDTH), ("o", WIDTH, WIDTH),
                                   ("up", WIDTH, 704), ("gate", WIDTH, 704), ("down", 704, WIDTH)):
            setattr(self, name, nn.Linear(inner, outer, bias=False))

    def forward(self, x):
        h = self.norm_1(x)
        q, k, v = (part(h).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        h = self.norm_2(x)
        return x + self.down(F.silu(self.up(h)) * self.gate(h))


class Model(nn.Module):
    def __init__(self, is_first=True, is_last=True, layers=LAYERS):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH) if is_first else None
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = (nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)) if is_last else (None, None)

    def forward(self, x):
        x = x if self.words is None else self.words(x)
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None else self.head(self.norm(x))


def loss_of(prediction, target):
    return F.cross_entropy(prediction.flatten(0, 1).float(), target.flatten())


def batch(count=BATCH):
    return (torch.randint(0, WORDS, (count, LENGTH), device="cuda") for _ in range(2))


def train(model, around=None, count=BATCH):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        x, y = batch(count)
        with around(x, y) if around else torch.enable_grad():
            loss = loss_of(model(x), y)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        time.sleep(0.3)  # NCCL's watchdog, which looks every 100 ms, holds what finished work has


def ddp(rank, size):
    train(nn.parallel.DistributedDataParallel(Model().cuda(), device_ids=[torch.cuda.current_device()]))


def uneven(rank, size):
    """A batch of another size on each rank, drawn."""
    count = int(torch.randint(1, 4 * BATCH, (), generator=torch.Generator().manual_seed(rank)))
    train(nn.parallel.DistributedDataParallel(Model().cuda(), device_ids=[torch.cuda.current_device()]), count=count)


def fsdp1(rank, size):
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    train(FullyShardedDataParallel(Model(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.cuda.current_device(),
                                   mixed_precision=MixedPrecision(torch.bfloat16, torch.float32), use_orig_params=True))


def shard(model, mesh):
    try:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cuda")
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


def empty():
    with torch.device("meta"):
        return Model()


def fsdp2(rank, size):
    train(shard(empty(), init_device_mesh("cuda", (size,))))


def hsdp(rank, size):
    train(shard(empty(), init_device_mesh("cuda", (2, size // 2), mesh_dim_names=("copies", "parts"))))


def split(model, mesh):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
    columns, rows = ColwiseParallel(input_layouts=Shard(1)), RowwiseParallel(output_layouts=Shard(1))
    parallelize_module(model, mesh, {"words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
                                     "norm": SequenceParallel(),
                                     "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    for layer in model.layers:
        parallelize_module(layer, mesh, {"norm_1": SequenceParallel(), "norm_2": SequenceParallel(), "o": rows, "down": rows,
                                         **dict.fromkeys(("q", "k", "v", "up", "gate"), columns)})
    return model


def tp(rank, size):
    model = split(empty(), init_device_mesh("cuda", (size,)))
    train(model.to_empty(device="cuda"))


def fsdp2_tp(rank, size):
    mesh = init_device_mesh("cuda", (2, size // 2), mesh_dim_names=("parts", "columns"))
    train(shard(split(empty(), mesh["columns"]), mesh["parts"]))


def pipeline(rank, size, **shapes):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    model = Model(rank == 0, rank == size - 1, LAYERS // size).cuda()
    schedule = Schedule1F1B(PipelineStage(model, rank, size, torch.device("cuda", torch.cuda.current_device()), **shapes), 2 * size,
                            loss_fn=loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        x, y = batch(2 * size)
        schedule.step(*([x] if rank == 0 else []), **({"target": y, "losses": []} if rank == size - 1 else {}))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def pp_static(rank, size):
    hidden = torch.zeros(1, LENGTH, WIDTH, device="cuda", requires_grad=True)
    given = torch.zeros(1, LENGTH, dtype=torch.long, device="cuda") if rank == 0 else hidden
    made = torch.zeros(1, LENGTH, WORDS if rank == size - 1 else WIDTH, device="cuda", requires_grad=True)
    pipeline(rank, size, input_args=(given,), output_args=(made,))


def pp_exchanged(rank, size):
    pipeline(rank, size)


def cp(rank, size):
    from torch.distributed.tensor.experimental import context_parallel
    mesh, model = init_device_mesh("cuda", (size,)), Model().cuda()
    train(model, lambda x, y: context_parallel(mesh, buffers=[x, y], buffer_seq_dims=[1, 1], no_restore_buffers={x, y}))


class Experts(nn.Module):
    """One on each rank; a token's expert is drawn on the CPU, so each rank sends other numbers of tokens to each."""

    def __init__(self, rank, size):
        super().__init__()
        self.size, self.up, self.down = size, nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drawn = torch.Generator().manual_seed(rank)
        self.share = torch.rand(size, generator=self.drawn) + 0.2  # experts are not chosen alike

    def forward(self, x):
        from torch.distributed.nn.functional import all_to_all_single as exchange
        flat = x.flatten(0, 1)
        expert = torch.multinomial(self.share, len(flat), replacement=True, generator=self.drawn)
        sent, order = torch.bincount(expert, minlength=self.size), expert.argsort().cuda()
        received = torch.empty_like(sent, device="cuda")
        dist.all_to_all_single(received, sent.cuda())
        sent, received = sent.tolist(), received.tolist()
        here = exchange(flat.new_empty(sum(received), WIDTH), flat[order], received, sent)
        back = exchange(torch.empty_like(flat), self.down(F.gelu(self.up(here))), sent, received)
        return x + torch.empty_like(flat).index_copy(0, order, back).view_as(x)


def ep(rank, size):
    model = Model()
    for layer in model.layers[::2]:
        layer.down = nn.Sequential(layer.down, Experts(rank, size))
    train(model.cuda())


def objects(rank, size):
    """What programs tell each other before they train."""
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * 100})
    told = [{"width": WIDTH} if rank == 0 else None]
    dist.broadcast_object_list(told, src=0)
    assert told[0]["width"] == WIDTH and len(found) == size and found[rank]["rank"] == rank
    uneven = [torch.zeros(3 + other, device="cuda") for other in range(size)]
    dist.all_gather(uneven, torch.ones(3 + rank, device="cuda"))
    total = torch.tensor([2.0], device="cuda")
    dist.all_reduce(total)
    assert total.item() == 2 * size and uneven[rank].sum().item() == 3 + rank
    dist.barrier()
    ddp(rank, size)


def main():
    kinds, path = sys.argv[1].split(","), sys.argv[2]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if "objects" in kinds else "nccl")
    for kind in kinds:
        globals()[kind](dist.get_rank(), dist.get_world_size())
        found = torch.cuda.memory_stats()
        with open(path, "a") as file:
            file.write(json.dumps([kind, dist.get_rank(), *(found[name] for name in COUNTERS)]) + "\n")
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
