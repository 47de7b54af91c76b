"""What small messages carry between ranks, by every collective that PyTorch asks NCCL for."""
import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
count = dist.get_world_size()
others = range(count)


def on_gpu(*numbers, dtype=torch.float32):
    return torch.tensor(numbers, dtype=dtype).cuda()


for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
    both = on_gpu(rank + 1, 10 * (rank + 1), dtype=dtype)
    dist.all_reduce(both)
    assert both.tolist() == [sum(range(count + 1)), 10 * sum(range(count + 1))], dtype
large = on_gpu(2 ** 60 + rank, dtype=torch.int64)
dist.all_reduce(large, op=dist.ReduceOp.MAX)
assert large.item() == 2 ** 60 + count - 1
mean = on_gpu(float(rank))
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
assert mean.item() == (count - 1) / 2

told = [None] * count
dist.all_gather_object(told, {"rank": rank, "text": "x" * rank * 100})
assert [one["rank"] for one in told] == list(others)
said = [{"a": 1} if rank == 0 else None]
dist.broadcast_object_list(said, src=0)
assert said == [{"a": 1}]

part = torch.zeros(2).cuda()
dist.reduce_scatter_tensor(part, torch.arange(2.0 * count).cuda())
assert part.tolist() == [count * 2 * rank, count * (2 * rank + 1)]
swapped = torch.empty(count).cuda()
dist.all_to_all_single(swapped, on_gpu(*(float(rank * 10 + i) for i in others)))
assert swapped.tolist() == [i * 10 + rank for i in others]

alone = [dist.new_group([i]) for i in others][rank]
everyone = dist.new_group(list(others))
for group, total in ((alone, rank), (everyone, sum(others))):
    number = on_gpu(float(rank))
    dist.all_reduce(number, group=group)
    assert number.item() == total
received = torch.empty(1).cuda()
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, on_gpu(float(rank)), (rank + 1) % count),
                                    dist.P2POp(dist.irecv, received, (rank - 1) % count)]):
    work.wait()
assert received.item() == (rank - 1) % count
for turn in range(20):  # more letters than a mailbox holds
    if rank == 0:
        dist.send(on_gpu(float(turn)), 1)
    elif rank == 1:
        dist.recv(received, 0)
        assert received.item() == turn

dist.all_reduce(torch.ones(1 << 20).cuda())  # too long to travel
dist.barrier()
dist.destroy_process_group()
print(f"rank {rank} right\n", end="", flush=True)
