"""Uses what the simulation has no figures for, by name."""
import sys

import torch


def solver():
    a = torch.randn(64, 64, device="cuda") + 99 * torch.eye(64, device="cuda")
    for function in (torch.linalg.eigh, torch.linalg.svd, torch.linalg.qr, torch.linalg.lu):
        function(a)


def sparse():
    rows = torch.sparse_csr_tensor(torch.arange(4, device="cuda"), torch.tensor([1, 2, 0], device="cuda"), torch.ones(3, device="cuda"))
    rows @ torch.ones(3, 3, device="cuda")


def convolution():
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).cuda()
    network(torch.randn(2, 3, 32, 32, device="cuda")).sum().backward()


def attention():
    q, k, v = torch.randn(3, 2, 8, 128, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()


def times():
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for event in events:
        event.record()
    events[0].elapsed_time(events[1])


def groups():
    """Two communicators for each rank: of all, and of some."""
    torch.distributed.init_process_group("nccl")
    rank = torch.distributed.get_rank()
    torch.cuda.set_device(rank)
    x = torch.ones(4, device="cuda")
    torch.distributed.all_reduce(x)
    mine = [torch.distributed.new_group([i, i + 2]) for i in range(2)][rank % 2]
    torch.distributed.all_reduce(x, group=mine)
    torch.distributed.destroy_process_group()


x = torch.nn.Linear(8, 8).cuda()(torch.ones(8, 8, device="cuda")).sum()
for name in sys.argv[1:]:
    globals()[name]()
