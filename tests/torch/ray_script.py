"""Ray on two cards: tasks, actors that are ended in four ways, and ray.train's TorchTrainer. Each worker writes what PyTorch itself
counted.

    ray_script.py FOLDER
"""
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import weakref

import ray
import torch
from torch import nn

folder = pathlib.Path(sys.argv[1])


def count(kind, number, device=0):
    stats = torch.cuda.memory_stats(device)
    (folder / f"{os.getpid()}.json").write_text(json.dumps({
        "kind": kind, "number": number, "pid": os.getpid(), "device": device, "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "reserved": stats["reserved_bytes.all.current"], "reserved_peak": stats["reserved_bytes.all.peak"],
        "allocated": stats["allocated_bytes.all.current"], "allocated_peak": stats["allocated_bytes.all.peak"]}))


def train(number, device="cuda", seconds=0):
    """For so long at most, but until an inspection has seen the model, which leaves a weak reference to it."""
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    references, end, steps = weakref.getweakrefcount(model), time.monotonic() + seconds, 0
    while steps < 4 or (weakref.getweakrefcount(model) == references and time.monotonic() < end):
        model(torch.randn(256 * (number + 1), 256, device=device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
    torch.cuda.synchronize(device)
    return model, optimizer


@ray.remote(num_gpus=0.5, num_cpus=0.5)
def task(number):
    train(number)
    count("task", number)


@ray.remote(num_gpus=0.5, num_cpus=0.5)
class Actor:
    def work(self, number):
        self.kept = train(number)
        count("actor", number)
        return os.getpid()


def train_loop(config):
    import torch.distributed as dist
    from ray.train import get_context
    from ray.train.torch import get_device
    rank, device = get_context().get_world_rank(), get_device()
    torch.cuda.set_device(device)
    kept = train(rank, device, seconds=20)  # in a thread: inspections come when Ray next asks the main one how it goes
    dist.barrier()
    count("rank", rank, device.index)
    dist.barrier()
    del kept


def use_actors():
    actors = [Actor.remote() for _ in range(4)]
    pids = ray.get([actors[number].work.remote(number) for number in range(4)])
    ray.kill(actors[0])
    os.kill(pids[1], signal.SIGTERM)
    os.kill(pids[2], signal.SIGKILL)
    actors.clear()  # the last one ends as nobody can use it any more
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        time.sleep(0.05)


def use_trainer(storage):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    TorchTrainer(train_loop, train_loop_config={}, torch_config=TorchConfig(backend="gloo"),
                 scaling_config=ScalingConfig(num_workers=4, use_gpu=True, resources_per_worker={"CPU": 0.5, "GPU": 0.5}),
                 run_config=RunConfig(storage_path=storage)).fit()


with tempfile.TemporaryDirectory(prefix="ray") as temporary:
    ray.init(num_cpus=4, num_gpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=temporary)
    ray.get([task.remote(number) for number in range(2)])
    use_actors()
    use_trainer(temporary + "/storage")
    ray.shutdown()
