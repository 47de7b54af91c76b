"""A rank of a job over gloo, several on one device: trains, and writes what the framework itself counted.

    torchrun --nproc-per-node 8 ranks_script.py LAYOUT FOLDER [--odd RANK] [--keep RANK] [--fill RANK]
"""
import argparse
import json
import os
import pathlib

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("layout", choices=["ddp", "fsdp", "pipeline", "tensor"])
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--odd", type=int, default=-1)
parser.add_argument("--keep", type=int, default=-1)
parser.add_argument("--fill", type=int, default=-1)
parser.add_argument("--steps", type=int, default=4)
options = parser.parse_args()

WIDTH, DEPTH = 256, 8
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.cuda.set_device(device)
torch.backends.cuda.enable_cudnn_sdp(False)
dist.init_process_group("gloo")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, inputs):
        return inputs + self.down(torch.relu(self.up(inputs)))


class Model(nn.Module):
    def __init__(self, depths):
        super().__init__()
        self.layers = nn.ModuleDict({str(depth): Block() for depth in depths})

    def forward(self, inputs):
        for layer in self.layers.values():
            inputs = layer(inputs)
        return inputs


def make_model():
    if options.layout == "pipeline":
        each = DEPTH // world
        return Model(range(rank * each, (rank + 1) * each)).to(device)
    model = Model(range(DEPTH if options.layout != "ddp" else 2)).to(device)
    if options.layout == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cuda", (world,))
    if options.layout == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for layer in model.layers.values():
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    return parallelize_module(model, mesh, {"layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel()})


def step(model, batch, kept):
    inputs = torch.randn(batch, WIDTH, device=device)
    if options.layout == "pipeline":
        if rank:
            received = torch.empty(batch, WIDTH)
            dist.recv(received, rank - 1)
            inputs = received.to(device).requires_grad_()
        outputs = model(inputs)
        if rank + 1 < world:
            dist.send(outputs.detach().cpu(), rank + 1)
            gradient = torch.empty(batch, WIDTH)
            dist.recv(gradient, rank + 1)
            outputs.backward(gradient.to(device))
        else:
            outputs.square().mean().backward()
        if rank:
            dist.send(inputs.grad.cpu(), rank - 1)
    else:
        model(inputs).square().mean().backward()
    if rank == options.keep:
        kept.append(torch.ones(8 << 20, dtype=torch.uint8, device=device))


def main():
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch, kept = 4096 if rank == options.odd else 1024, []
    for number in range(options.steps):
        step(model, batch, kept)
        optimizer.step()
        optimizer.zero_grad()
        if number == 2 and rank == options.fill:
            hoard = [torch.empty(1 << 30, dtype=torch.uint8, device=device) for _ in range(1000)]  # fills the card
    torch.cuda.synchronize()
    dist.barrier()  # all stand still
    free, total = torch.cuda.mem_get_info()
    counted = {"rank": rank, "pid": os.getpid(), "device": device.index, "card_used": total - free,
               "allocated_peak": torch.cuda.max_memory_allocated(), "reserved_peak": torch.cuda.max_memory_reserved(),
               "reserved": torch.cuda.memory_reserved()}
    (options.folder / f"rank{rank}.json").write_text(json.dumps(counted))
    dist.barrier()
    dist.destroy_process_group()


main()
