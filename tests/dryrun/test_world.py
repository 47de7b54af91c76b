"""One process that plays a rank of N, against N real processes: a few kinds; tests/dryrun/world.py has all."""
import json
import re

import pytest

import world
from dry import PYTHON, dry


@pytest.mark.parametrize("kind, size, ranks", [("objects", 2, "1,0"), ("pp_exchanged", 2, "1"), ("fsdp2_tp", 4, "2")])
def test_equals_real_processes(kind, size, ranks, tmp_path):
    real, alone, done = world.compare(tmp_path, kind, size, ranks=ranks)
    assert {int(rank) for rank in ranks.split(",")} <= set(alone)
    assert {rank: real[rank] for rank in alone} == alone
    assert f"played of {size} ranks:" in done.error


def played(folder):
    return sorted(int(path.stem.split(".")[-1]) for path in (folder / "x").glob("*.vrt"))


def test_below_a_launcher(tmp_path):
    """Of torchrun's processes of a host, one plays the rank."""
    (tmp_path / "x").mkdir()
    torchrun = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = dry(tmp_path, [*torchrun, world.PROGRAM, "ddp", "counters"], "--world", "64", "--rank", "33", "--gpu", world.GPU, "--steps", "2")
    assert done.status == 0 and played(tmp_path) == [33] and "played of 64 ranks: 33;" in done.error, done.error


def test_ranks_that_may_differ(tmp_path):
    """If none is named: rank 0, and the last of each of its groups."""
    (tmp_path / "x").mkdir()
    done = dry(tmp_path, [PYTHON, world.PROGRAM, "hsdp", "counters"], "--world", "64", "--gpu", world.GPU, "--steps", "2")
    assert done.status == 0 and played(tmp_path) == [0, 31, 32, 63], done.error
    told = ("4 ranks need", "played of 64 ranks: 0, 63, 32, 31; all alike;", "a communicator × 3")
    assert all(text in done.error for text in told), done.error


SPAWNS = """
import os, torch, torch.distributed as dist, torch.multiprocessing as mp
def run(index, size):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", store=dist.TCPStore("localhost", 29511, size, index == 0), rank=index, world_size=size)
    held = torch.zeros(1 << 20, device="cuda")
    dist.all_reduce(held)
    one = torch.ones(1, device="cuda")
    dist.all_reduce(one)
    print("SEEN", dist.get_rank(), dist.get_world_size(), index, one.item(), flush=True)
if __name__ == "__main__":
    mp.spawn(run, args=(4,), nprocs=4)
"""


def test_spawned_processes_and_own_stores(tmp_path):
    (tmp_path / "spawns.py").write_text(SPAWNS)
    done = dry(tmp_path, [PYTHON, "spawns.py"], "--world", "16", "--rank", "6", "--gpu", f"{world.GPU}:4")
    assert done.status == 0 and re.findall(r"^SEEN (.*)$", done.output, re.M) == ["6 16 2 16.0"], done.output + done.error


def test_wrong_use(tmp_path):
    for options, said in ((["--rank", "0"], "--rank needs --world"), (["--world", "0"], "not a number of processes"),
                          (["--world", "4", "--rank", "4"], "the last rank is 3"), (["--world", "4", "--rank", "1-2"], "neither all nor")):
        done = dry(tmp_path, ["true"], *options)
        assert done.status == 2 and said in done.error, json.dumps([options, done.error])
