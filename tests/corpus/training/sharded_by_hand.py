"""Weights spread over ranks: PyTorch's own ways, and some written by hand. One process; the others are made up."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

CLASSES = 24


def fake_ranks(n):
    """A process group of N ranks that sends nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=n)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, 3 * d)
        self.down = nn.Linear(3 * d, d)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Tower(nn.Module):
    def __init__(self, d=192, depth=3):
        super().__init__()
        self.embed = nn.Linear(128, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.out = nn.Linear(d, CLASSES)

    def forward(self, x):
        x = self.embed(x)
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def sample(rows=64):
    return torch.randn(rows, 128, device="cuda"), torch.zeros(rows, dtype=torch.long, device="cuda")


def note_collectives(record, gathered="communication"):
    """GATHERED: what an all-gather fills. FSDP1 computes with it; FSDP2 copies the weights out of it first."""
    gather, reduce = dist.all_gather_into_tensor, dist.reduce_scatter_tensor

    def all_gather_into_tensor(output, *args, **kwargs):
        record.note(gathered, [output])
        return gather(output, *args, **kwargs)

    def reduce_scatter_tensor(output, input, *args, **kwargs):
        if gathered == "communication":  # else it is the gradient as autograd computed it
            record.note("communication", [input])
        return reduce(output, input, *args, **kwargs)

    dist.all_gather_into_tensor, dist.reduce_scatter_tensor = all_gather_into_tensor, reduce_scatter_tensor


def note_gathered(record, model):
    """What the layers compute with is weights, also where it was gathered for the moment: in forward and in backward."""
    def now(layer, *_):
        record.note("parameter", list(layer.parameters(recurse=False)))

    def after(layer, _, out):
        now(layer)
        if out.requires_grad:
            out.register_hook(lambda g: now(layer))

    for layer in model.modules():
        if isinstance(layer, (nn.Linear, nn.LayerNorm)):
            layer.register_forward_pre_hook(now)
            layer.register_forward_hook(after)


def fit(record, model, optimizer, forward=None, steps=3):
    record.watch([model], [optimizer])
    for step in range(steps):
        x, y = sample()
        loss = F.cross_entropy((forward or model)(x), y)
        record.take("fwd", step, (x, y))
        loss.backward()
        record.take("bwd", step, (x, y))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (x, y))


def fsdp_first(record):
    """FullyShardedDataParallel over four ranks, a unit for each block."""
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    fake_ranks(4)
    note_collectives(record, "parameter")
    tower = Tower().cuda()
    note_gathered(record, tower)
    model = FSDP(tower, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=0, use_orig_params=True)
    fit(record, model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    dist.destroy_process_group()


def fsdp_second_mixed(record):
    """fully_shard over four ranks, gathered in bfloat16, reduced in float32."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    fake_ranks(4)
    note_collectives(record)
    mesh = init_device_mesh("cuda", (4,))
    model = Tower().cuda()
    note_gathered(record, model)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    fit(record, model, torch.optim.Adam(model.parameters()))
    dist.destroy_process_group()


def tensor_parallel_again(record):
    """Columns and rows of each block's layers, over two ranks."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    fake_ranks(2)
    mesh = init_device_mesh("cuda", (2,))
    model = Tower().cuda()
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    fit(record, model, sgd)
    dist.destroy_process_group()


class ShardedLinear(nn.Module):
    """ZeRO-3 by hand: each rank keeps a part of the weight, and gathers it for use."""

    def __init__(self, i, o, record):
        super().__init__()
        self.shape, self.record = (o, i), record
        self.shard = nn.Parameter(torch.randn(o * i // dist.get_world_size()) * 0.02)

    def forward(self, x):
        return Gathered.apply(x, self.shard, self)


class Gathered(torch.autograd.Function):
    @staticmethod
    def whole(shard, layer):
        full = torch.empty(shard.numel() * dist.get_world_size(), device=shard.device)
        dist.all_gather_into_tensor(full, shard.detach())
        layer.record.note("parameter", [full])
        return full.view(layer.shape)

    @staticmethod
    def forward(ctx, x, shard, layer):
        ctx.layer = layer
        ctx.save_for_backward(x, shard)
        return x @ Gathered.whole(shard, layer).t()

    @staticmethod
    def backward(ctx, grad):
        x, shard = ctx.saved_tensors
        w = Gathered.whole(shard, ctx.layer)
        grad_full = (grad.t() @ x).reshape(-1)
        grad_shard = torch.empty_like(shard)
        dist.reduce_scatter_tensor(grad_shard, grad_full)
        return grad @ w, grad_shard, None


def zero3_by_hand(record):
    fake_ranks(8)
    model = nn.Sequential(ShardedLinear(128, 768, record), nn.ReLU(), ShardedLinear(768, 768, record), nn.ReLU(),
                          ShardedLinear(768, CLASSES, record)).cuda()
    fit(record, model, torch.optim.AdamW(model.parameters()))
    dist.destroy_process_group()


class ZeroOne:
    """State for this rank's part of one flat fp32 vector; the weights are bfloat16 and whole on each rank."""

    def __init__(self, params, world, lr=1e-3):
        self.params, self.lr, self.world = list(params), lr, world
        self.size = -(-sum(p.numel() for p in self.params) // world)
        flat = torch.cat([p.detach().reshape(-1) for p in self.params]).float()
        self.master = flat[: self.size].clone()
        self.m, self.v = torch.zeros_like(self.master), torch.zeros_like(self.master)

    @torch.no_grad()
    def step(self, record):
        flat = torch.cat([p.grad.reshape(-1) for p in self.params])
        flat = F.pad(flat, (0, self.size * self.world - flat.numel()))
        record.note("communication", [flat])
        mine = torch.empty(self.size, dtype=flat.dtype, device=flat.device)
        dist.reduce_scatter_tensor(mine, flat)
        g = mine.float()
        self.m.lerp_(g, 0.1)
        self.v.lerp_(g * g, 0.01)
        self.master -= self.lr * self.m / (self.v.sqrt() + 1e-8)
        whole = torch.empty(self.size * self.world, dtype=torch.bfloat16, device=g.device)
        record.note("parameter", [whole])
        dist.all_gather_into_tensor(whole, self.master.bfloat16())
        at = 0
        for p in self.params:
            p.copy_(whole[at:at + p.numel()].view_as(p))
            at += p.numel()


def zero1_by_hand(record):
    fake_ranks(4)
    model = Tower(256).cuda().bfloat16()
    opt = ZeroOne(model.parameters(), 4)
    record.watch([model])
    record.hold("optimizer_state", lambda: [opt.m, opt.v])
    record.hold("parameter", lambda: [opt.master])
    for step in range(4):
        x, y = sample()
        x = x.bfloat16()
        loss = F.cross_entropy(model(x).float(), y)
        record.take("fwd", step, (x, y))
        loss.backward()
        record.take("bwd", step, (x, y))
        opt.step(record)
        for p in model.parameters():
            p.grad = None
        record.take("step", step, (x, y))
    dist.destroy_process_group()


def pipeline_by_hand_again(record):
    """GPipe: two stages, four micro-batches, what is passed on is detached and gets its gradient from the next stage."""
    stages = [nn.Sequential(nn.Linear(128, 384), Block(384)).cuda(), nn.Sequential(Block(384), nn.Linear(384, CLASSES)).cuda()]
    opts = [torch.optim.Adam(s.parameters()) for s in stages]
    record.watch(stages, opts)
    for step in range(3):
        x, y = sample(128)
        sent, received, losses = [], [], []
        for xm in x.chunk(4):
            sent.append(stages[0](xm))
        for h, ym in zip(sent, y.chunk(4)):
            h = h.detach().requires_grad_()
            received.append(h)
            losses.append(F.cross_entropy(stages[1](h), ym) / 4)
        record.note("activation", received)
        record.take("fwd", step, (x, y))
        grads = []
        for h, loss in zip(received, losses):
            loss.backward()
            grads.append(h.grad)
        record.note("gradient", grads)
        record.take("mid", step, (x, y), grads)
        for out, g in zip(sent, grads):
            out.backward(g)
        record.take("bwd", step, (x, y), grads)
        for o in opts:
            o.step()
            o.zero_grad()
        del sent, received, losses, grads, h, g, out, loss
        record.take("step", step, (x, y))
