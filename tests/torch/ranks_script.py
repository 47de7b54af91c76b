"""A rank of a job over gloo, several on one device: trains, and writes what the framework itself counted.

    torchrun --nproc-per-node 8 ranks_script.py LAYOUT FOLDER [--odd RANK] [--keep RANK] [--second RANK] [--fill RANK [--late RANK]]

--second: that rank has a second model.
--fill: that rank fills its card until memory runs out, while all others stand still; --late: then that one asks for more too.
"""
import argparse
import ctypes
import json
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("layout", choices=["ddp", "fsdp", "pipeline", "pipelining", "tensor"])
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--odd", type=int, default=-1)
parser.add_argument("--keep", type=int, default=-1)
parser.add_argument("--second", type=int, default=-1)
parser.add_argument("--fill", type=int, default=-1)
parser.add_argument("--late", type=int, default=-1)
parser.add_argument("--steps", type=int, default=4)
options = parser.parse_args()

WIDTH, DEPTH = 256, 8
kept_bytes = []  # of each block that is kept
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


class Hoard(nn.Module):
    def forward(self, kept):
        while True:
            kept.append(torch.empty(1 << 30, dtype=torch.uint8, device=device))  # fills the card


class Model(nn.Module):
    def __init__(self, depths):
        super().__init__()
        self.layers = nn.ModuleDict({str(depth): Block() for depth in depths})
        self.hoard = Hoard()

    def forward(self, inputs):
        for layer in self.layers.values():
            inputs = layer(inputs)
        return inputs


def make_model():
    if options.layout.startswith("pipelin"):
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


def make_schedule(model):
    """Of torch.distributed.pipelining, in two parts of a batch of 1,024."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    part = torch.empty(512, WIDTH, device=device)
    stage = PipelineStage(model, rank, world, device, input_args=(part,), output_args=(part,))
    return ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)


def run_schedule(schedule):
    batch = torch.randn(1024, WIDTH, device=device)
    schedule.step(*([batch] if rank == 0 else []), **({"target": batch} if rank + 1 == world else {}))


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
        before = torch.cuda.memory_allocated()
        kept.append(torch.ones(8 << 20, dtype=torch.uint8, device=device))
        kept_bytes.append(torch.cuda.memory_allocated() - before)


def count(**more):
    free, total = torch.cuda.mem_get_info()
    stats = torch.cuda.memory_stats()
    return {"rank": rank, "pid": os.getpid(), "device": device.index, "card_free": free, "card_used": total - free,
            "allocated": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"],
            "allocated_peak": stats["allocated_bytes.all.peak"], "reserved_peak": stats["reserved_bytes.all.peak"], **more}


def tell(name, **counted):
    path = options.folder / f"{name}{rank}.json"
    path.with_suffix(".part").write_text(json.dumps(counted))
    path.with_suffix(".part").rename(path)


def wait_for(name, ranks):
    while not all((options.folder / f"{name}{other}.json").exists() for other in ranks):
        time.sleep(0.02)


def wait_until_told():
    """All stand still until the recorder has asked NVML twice: what a process has on a card of others is known from then on only."""
    dist.barrier()
    readings = ctypes.CDLL("libcuda.so.1").standin_card_readings
    enough, end = readings() + 6, time.monotonic() + 60
    while readings() < enough and time.monotonic() < end:
        time.sleep(0.02)
    dist.barrier()


def ask(what, *arguments, kept=()):
    asked_ns = time.time_ns()
    try:
        what(*arguments)
    except torch.OutOfMemoryError:
        tell("fell", asked_ns=asked_ns, refused_ns=time.time_ns(), kept=sum(tensor.nbytes for tensor in kept), **count())
        if options.late >= 0:
            wait_for("fell", [options.fill, options.late])
        raise


def fill(model):
    torch.cuda.synchronize()
    wait_until_told()
    tell("still", **count())
    wait_for("still", range(world))
    kept = []
    if rank == options.fill:
        ask(model.module.hoard, kept, kept=kept)
    if rank == options.late:
        wait_for("fell", [options.fill])
        ask(lambda: torch.empty(2 << 30, dtype=torch.uint8, device=device))  # is too late
    dist.barrier()


def main():
    model = make_model()
    if rank == options.second:
        teacher = Model(range(8)).to(device)  # noqa: F841 (is to be there)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch, kept = 4096 if rank == options.odd else 1024, []
    schedule = make_schedule(model) if options.layout == "pipelining" else None
    for number in range(options.steps):
        run_schedule(schedule) if schedule else step(model, batch, kept)
        optimizer.step()
        optimizer.zero_grad()
        if number == 2 and options.fill >= 0:
            fill(model)
    torch.cuda.synchronize()
    wait_until_told()
    tell("rank", **count(kept_bytes=kept_bytes, names=[name for name, _ in model.named_parameters()]))
    dist.barrier()
    dist.destroy_process_group()


main()
