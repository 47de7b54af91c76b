"""One process that plays a rank of N, against N real processes: a few kinds; tests/dryrun/world.py has all."""
import json
import re
import subprocess

import pytest

import world
from dry import PROGRAM, PYTHON, dry
from helpers import LONG


@pytest.mark.parametrize("kind, size, ranks", [("objects", 2, "1,0"), ("pp_exchanged", 2, "1"),
                                               pytest.param("fsdp2_tp", 4, "2", marks=pytest.mark.skipif(not LONG, reason="2 minutes"))])
def test_equals_real_processes(kind, size, ranks, tmp_path):
    real, alone, done = world.compare(tmp_path, kind, size, ranks=ranks)
    assert {int(rank) for rank in ranks.split(",")} <= set(alone[kind])
    assert {rank: real[kind][rank] for rank in alone[kind]} == alone[kind]
    assert f"played of {size} ranks:" in done.error


def test_experts(tmp_path):
    """Real peaks are between those that are given."""
    real, alone, done = world.compare(tmp_path, "ep", 2)
    told = world.in_words(json.loads(json.dumps({"kind": "ep", "real": real["ep"], "alone": alone["ep"]})))
    assert ": inside;" in told, told
    assert "sends to its own, and to rank 1 what that sends to any; real routing may need more" in done.error, done.error


def test_batches_of_several_sizes(tmp_path):
    """Ranks that do the same need different amounts: all of a host are played."""
    real, alone, done = world.compare(tmp_path, "uneven", 4)
    assert set(alone["uneven"]) == {0, 1, 2, 3} and real == alone, done.error
    assert len({peak for peak, *_ in real["uneven"].values()}) > 2 and "taken to hold" not in done.error, done.error


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


BROADCASTS = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
pairs = [dist.new_group([first, first + 1]) for first in range(0, dist.get_world_size(), 2)]
count = torch.full((1,), dist.get_rank(), device="cuda")
dist.broadcast(count, src=dist.get_rank() // 2 * 2, group=pairs[dist.get_rank() // 2])  # of the last one, from one that is not played
print("COUNT", dist.get_rank(), count.item(), flush=True)
for number in (7, 8):
    told = torch.full((3,), number if dist.get_rank() == 0 else -1, device="cuda")
    dist.broadcast(told, src=0)
    print("SEEN", dist.get_rank(), told.tolist(), flush=True)
parts = [torch.ones(3, device="cuda")] * dist.get_world_size() if dist.get_rank() == 0 else None
dist.scatter(torch.empty(3, device="cuda"), parts, src=0)  # small parts, but no sizes
dist.gather_object("text", [None] * dist.get_world_size() if dist.get_rank() == 0 else None, dst=0)  # no neighbors
"""


def test_broadcasts_of_a_rank_that_was_played_before(tmp_path):
    """DeepSpeed's ZeRO 3 compares what it has with what rank 0 has."""
    (tmp_path / "x").mkdir()
    (tmp_path / "broadcasts.py").write_text(BROADCASTS)
    done = dry(tmp_path, [PYTHON, "broadcasts.py"], "--world", "64", "--gpu", world.GPU)
    seen = re.findall(r"^SEEN (\d+) \[(\d), \2, \2\]$", done.output, re.M)
    wanted = [(rank, number) for rank in ("0", "63", "62", "63", "1") for number in "78"]  # 63 again, after 62
    assert done.status == 0 and seen == wanted, done.output + done.error
    assert played(tmp_path) == [0, 1, 63] and "side by side" not in done.error, done.error
    assert "rank 62, unrecorded, for what it tells rank 63" in done.error and "COUNT 63 62" in done.output, done.output


SENDS = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
before = torch.cuda.mem_get_info()[0]
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
told, heard = (torch.full((1,), 5, device="cuda") for _ in range(2))
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, told, (rank + 1) % size), dist.P2POp(dist.irecv, heard, (rank - 1) % size)]):
    work.wait()
parts = [1 + (rank == other) for other in range(size)]
dist.all_to_all_single(torch.empty(2 * size, device="cuda"), torch.ones(sum(parts), device="cuda"), [2] * size, parts)
print("TAKEN", (before - torch.cuda.mem_get_info()[0] - torch.cuda.memory_reserved()) >> 20, flush=True)
"""


def test_says_what_is_assumed(tmp_path):
    """Ranks that send parts of several sizes, and more ranks that send sizes than are played side by side; NCCL's memory is taken."""
    (tmp_path / "x").mkdir()
    (tmp_path / "sends.py").write_text(SENDS)
    done = dry(tmp_path, [PYTHON, "sends.py"], "--world", "100", "--gpu", world.GPU, "--nccl-memory", "300MiB")
    told = ("each rank sends to its experts what", "of 100 ranks that send each other sizes", "communication buffers 300 MiB")
    assert done.status == 0 and all(text in done.error for text in told) and "NCCL's buffers" not in done.error, done.error
    assert played(tmp_path) == [0, 25, 50, 75, 99] and set(re.findall(r"^TAKEN (\d+)$", done.output, re.M)) == {"300"}, done.output


OBJECTS = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
objects = [str(other) * 300_000 for other in range(size)]
heard, told, part = [None] * size, [objects[0] if rank == 0 else None], [None]
dist.all_gather_object(heard, objects[rank])
dist.broadcast_object_list(told, src=0)
gathered = [None] * size if rank == 0 else None
dist.gather_object(objects[rank], gathered, dst=0)
dist.scatter_object_list(part, objects if rank == 0 else None, src=0)
seen = [heard == objects, told == objects[:1], gathered == (objects if rank == 0 else None), part == [objects[rank]]]
os.write(1, f"SEEN {seen}\\n".encode())  # at once: two processes write
"""


def test_large_objects_of_real_processes(tmp_path):
    (tmp_path / "objects.py").write_text(OBJECTS)
    torchrun = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = dry(tmp_path, [*torchrun, "objects.py"], "--gpu", f"{world.GPU}:2")
    assert done.status == 0 and done.output.count("SEEN [True, True, True, True]\n") == 2, done.output + done.error[-3000:]


SAVES = """
import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("cpu:gloo,cuda:nccl")
model = fully_shard(torch.nn.Linear(4096, 8192, device="cuda"))
dcp.save({"model": model.state_dict()}, checkpoint_id="saved")
os.write(1, f"SAVED {dist.get_rank()}\\n".encode())  # at once: two processes write
"""


@pytest.mark.parametrize("size", [1, 2, 64])
def test_sharded_checkpoints(size, tmp_path):
    """Of one process, of two real ones, and of a rank of 64: the other parts are not there. What is large is a hole in the file."""
    (tmp_path / "x").mkdir()
    (tmp_path / "saves.py").write_text(SAVES)
    launcher, options = [PYTHON], ["--world", str(size), "--rank", "0"]
    if size == 2:
        launcher, options = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], []
    done = dry(tmp_path, [*launcher, "saves.py"], *options, "--gpu", f"{world.GPU}:2")
    assert done.status == 0 and len(re.findall("^SAVED", done.output, re.M)) == (2 if size == 2 else 1), done.output + done.error
    files = [path.stat() for path in (tmp_path / "saved").glob("*.distcp")]
    large = 4 * 4096 * 8192 // (1 if size == 2 else size)
    assert sum(file.st_size for file in files) > large > 1.5 * sum(512 * file.st_blocks for file in files)


def test_says_whether_kernels_were_compiled(tmp_path):
    (tmp_path / "compiles.py").write_text("""import torch
net = torch.compile(torch.nn.Linear(64, 64).cuda())
net(torch.zeros(8, 64, device="cuda")).sum().backward()""")
    # Ranks of a job start at once: a later one does not find what the first one compiled, but what was there before.
    for made, found, options in ((2, 0, ("--world", "2", "--rank", "all")), (0, 2, ())):  # a graph forward and one backward
        (tmp_path / "x").mkdir(exist_ok=True)
        done = dry(tmp_path, [PYTHON, "compiles.py"], *options, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"),
                   TORCHINDUCTOR_COMPILE_THREADS="1")  # else a pool of processes, which import PyTorch each
        told = f"graphs compiled in this run: {made}, taken from the cache: {found};"
        assert told in done.error, done.error
        if options:
            texts = [subprocess.check_output([PROGRAM, "report", "--json", trace], text=True) for trace in done.trace.glob("*.vrt")]
            assert len(texts) == 2 and all(told in text for text in texts)


def test_wrong_use(tmp_path):
    for options, said in ((["--rank", "0"], "--rank needs --world"), (["--world", "0"], "not a number of processes"),
                          (["--world", "4", "--rank", "4"], "the last rank is 3"), (["--world", "4", "--rank", "1-2"], "neither all nor")):
        done = dry(tmp_path, ["true"], *options)
        assert done.status == 2 and said in done.error, json.dumps([options, done.error])
