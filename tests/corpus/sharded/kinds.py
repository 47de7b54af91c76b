#!/usr/bin/env python3
"""All ranks of a training that is shared out in one of the ways that PyTorch has, each in a fork of this process.

    kinds.py FOLDER [--inspect] [--ranks N] KIND...

FOLDER gets KIND-RANK.vrt, KIND-RANK.truth and KIND-RANK.log, as of runner.py. The last line on stdout is JSON: {KIND-RANK: exit code}.
The ranks exchange messages through the stand-in's NCCL. Its kernels compute nothing, so stages of the pipeline are told their shapes.
"""
import argparse
import contextlib
import functools
import gc
import importlib
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "torch")]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import category_truth  # noqa: E402
import children  # noqa: E402
import models  # noqa: E402
from training.sharded import after, watch_fsdp  # noqa: E402

STEPS, WIDTH, INNER, LAYERS, WORDS, ROWS, TOKENS = 3, 512, 1408, 8, 8192, 4, 512


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, values):
        hidden = self.before(values)
        rows, tokens, _ = hidden.shape
        heads = [layer(hidden).view(rows, tokens, -1, 64).transpose(1, 2) for layer in (self.query, self.key, self.value)]
        seen = functional.scaled_dot_product_attention(*heads, is_causal=True)
        values = values + self.out(seen.transpose(1, 2).reshape(rows, tokens, -1))
        hidden = self.after(values)
        return values + self.down(functional.silu(self.gate(hidden)) * self.up(hidden))


class Net(nn.Module):
    """All of it, or a stage of a pipeline."""

    def __init__(self, layers=LAYERS, first=True, last=True):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH) if first else nn.Identity()
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH) if last else nn.Identity()
        self.head = nn.Linear(WIDTH, WORDS, bias=False) if last else nn.Identity()

    def forward(self, values):
        values = self.words(values)
        for block in self.blocks:
            values = block(values)
        return self.head(self.norm(values))


def batch(rows=ROWS):
    return [torch.randint(WORDS, (rows, TOKENS), device="cuda") for _ in range(2)]


def loss_of(outputs, targets):
    return functional.cross_entropy(outputs.flatten(0, 1).float(), targets.flatten())


def update(record, step, inputs, model, optimizer):
    record.take("bwd", step, inputs)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    record.take("step", step, inputs)
    optimizer.zero_grad()


def train(record, model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = batch()
        loss = loss_of(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        update(record, step, (inputs, targets), model, optimizer)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        del mean


def mesh_of(*shape):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cuda", shape, mesh_dim_names=("outer", "inner")[:len(shape)])


def ddp(record):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    model = nn.parallel.DistributedDataParallel(Net().cuda(), device_ids=[record.device])

    def reduce(state, bucket):
        record.note("communication", [bucket.buffer()])
        return allreduce_hook(state, bucket)

    model.register_comm_hook(None, reduce)
    train(record, model)


def fsdp1(record):
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    watch_fsdp(record)
    train(record, FullyShardedDataParallel(
        Net(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=record.device, use_orig_params=True,
        mixed_precision=MixedPrecision(torch.bfloat16, torch.float32)))


def shard(model, mesh, **options):
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)


def on_meta():
    with torch.device("meta"):
        return Net()


def begin(record, model):
    model.to_empty(device="cuda")
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    train(record, model)


def fsdp2(record, replicas=1):
    from torch.distributed.fsdp import MixedPrecisionPolicy

    watch_fsdp(record)
    model, ranks = on_meta(), dist.get_world_size()
    mesh = mesh_of(ranks) if replicas == 1 else mesh_of(replicas, ranks // replicas)
    shard(model, mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    begin(record, model)


def split(model, mesh):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

    parallelize_module(model, mesh, {
        "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    plan = {name: ColwiseParallel(input_layouts=Shard(1)) for name in ("query", "key", "value", "gate", "up")}
    plan |= {name: RowwiseParallel(output_layouts=Shard(1)) for name in ("out", "down")}
    for block in model.blocks:
        parallelize_module(block, mesh, {**plan, "before": SequenceParallel(), "after": SequenceParallel()})


def tp(record):
    model = on_meta()
    split(model, mesh_of(dist.get_world_size()))
    begin(record, model)


def tpfsdp(record):
    watch_fsdp(record)
    model, mesh = on_meta(), mesh_of(2, dist.get_world_size() // 2)
    split(model, mesh["inner"])
    shard(model, mesh["outer"])
    begin(record, model)


def watch_stages(record):
    """What they receive in, and the gradients that they will send, which may be gone at a mark."""
    from torch.distributed.pipelining import PipelineStage

    for name in ("stage", "_recv_buffers"):  # the second in new versions
        with contextlib.suppress(ImportError):
            after(importlib.import_module(f"torch.distributed.pipelining.{name}"), "_make_tensor_from_meta",
                  lambda tensor, *_: record.note("communication", [tensor]))
    after(PipelineStage, "backward_one_chunk", lambda _, stage, *__: record.note("gradient", category_truth.tensors_in(
        [*getattr(stage, "bwd_cache", {}).values(), getattr(stage, "grads_input", ())])))


def pp(record):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    watch_stages(record)
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), torch.device("cuda", record.device)
    first, last = rank == 0, rank == ranks - 1
    model = Net(max(1, LAYERS // ranks), first, last).to(device)
    words = torch.zeros(1, TOKENS, dtype=torch.long, device="meta")
    values = torch.zeros(1, TOKENS, WIDTH, device="meta", requires_grad=True)
    outputs = torch.zeros(1, TOKENS, WORDS, device="meta", requires_grad=True) if last else values
    stage = PipelineStage(model, rank, ranks, device, input_args=(words if first else values,), output_args=(outputs,))
    schedule = Schedule1F1B(stage, n_microbatches=2 * ranks, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = batch(2 * ranks)
        schedule.step(*([inputs] if first else []), **({"target": targets, "losses": []} if last else {}))
        update(record, step, (inputs, targets), model, optimizer)


KINDS = {"ddp": ddp, "fsdp1": fsdp1, "fsdp2": fsdp2, "hsdp": functools.partial(fsdp2, replicas=2), "tp": tp, "tpfsdp": tpfsdp, "pp": pp}


def rank_of(kind, rank, ranks, folder):
    models.settings()
    torch.manual_seed(0)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks))
    torch.cuda.set_device(rank)
    record = category_truth.Record(kind, str(folder / f"{kind}-{rank}.truth"), rank)
    dist.init_process_group("nccl", init_method=f"file://{folder.resolve()}/{kind}.store", rank=rank, world_size=ranks)
    KINDS[kind](record)
    gc.collect()  # a stage: what is freed while workspaces are dropped would pass for one
    time.sleep(0.5)  # NCCL's thread lets go of what was sent last
    record.write()
    dist.destroy_process_group()


def import_all():
    """What old versions have of it, before the forks."""
    for name in ("torch.distributed.fsdp", "torch.distributed.pipelining", "torch.distributed.tensor.parallel"):
        __import__(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("kinds", nargs="+", metavar="KIND", choices=KINDS)
    parser.add_argument("--inspect", action="store_true")
    parser.add_argument("--ranks", type=int, default=8)
    arguments = parser.parse_intermixed_args()
    category_truth.Record.with_inspections = arguments.inspect
    import_all()
    folder, ranks, codes = arguments.folder, arguments.ranks, {}
    for kind in arguments.kinds:
        (folder / f"{kind}.store").unlink(missing_ok=True)
        jobs = {f"{kind}-{rank}": functools.partial(rank_of, kind, rank, ranks, folder) for rank in range(ranks)}
        codes |= children.run(jobs, folder, at_once=ranks)
        for name in jobs:
            (folder / f"{name}.failed").unlink(missing_ok=True)
            if codes[name]:
                (folder / f"{name}.failed").write_text(f"ended with status {codes[name]}:\n" + (folder / f"{name}.log").read_text())
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
