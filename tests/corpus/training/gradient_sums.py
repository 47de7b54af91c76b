"""Gradients that take other ways than from backward() to step()."""
import contextlib
import types

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F


class Mixer(nn.Module):
    """An MLP over patches."""

    def __init__(self, patches=36, width=160, depth=3, classes=20):
        super().__init__()
        self.inp = nn.Linear(48, width)
        self.tokens = nn.ModuleList(nn.Linear(patches, patches) for _ in range(depth))
        self.channels = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                      for _ in range(depth))
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        h = self.inp(x)
        for tokens, channels in zip(self.tokens, self.channels):
            h = h + tokens(h.transpose(1, 2)).transpose(1, 2)
            h = h + channels(h)
        return self.out(h.mean(1))


def patches(n=24, dtype=torch.float32):
    return torch.randn(n, 36, 48).to("cuda", dtype), torch.randint(20, (n,)).to("cuda")


def same_device_group(world):
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())


# --- all-reduce by hand --------------------------------------------------------------------------------------------------

def buckets_of(tensors, limit):
    bucket, size = [], 0
    for tensor in tensors:
        bucket.append(tensor)
        size += tensor.numel() * tensor.element_size()
        if size > limit:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


def averaged_over_ranks(record):
    """Three passes add up in .grad; then lists of gradients are flattened, sent, and copied back."""
    same_device_group(4)
    model = Mixer().cuda()
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    record.watch([model], [optimizer])
    for step in range(4):
        for micro in range(3):
            x, y = patches()
            record.note("input", (x, y))
            loss = F.cross_entropy(model(x), y) / 3
            if micro != 1:
                record.take("fwd", step, (x, y))
            loss.backward()
        record.take("bwd", step, (x, y))
        grads = [p.grad for p in model.parameters()]
        for bucket in buckets_of(grads, 1 << 20):
            flat = _flatten_dense_tensors(bucket)
            record.note("communication", [flat])
            dist.all_reduce(flat)
            flat.div_(4)
            for g, reduced in zip(bucket, _unflatten_dense_tensors(flat, bucket)):
                g.copy_(reduced)
        del flat, reduced, bucket, g, grads
        record.take("sent", step, (x, y))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (x, y))
    dist.destroy_process_group()


# --- per sample ------------------------------------------------------------------------------------------------------------

def private_gradients(record):
    """A gradient for each sample, clipped one by one, summed, noise added (DP-SGD)."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(64, 192), nn.Tanh(), nn.Linear(192, 192), nn.Tanh(), nn.Linear(192, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    record.watch([model], [optimizer])

    def sample_loss(params, x, y):
        return F.cross_entropy(functional_call(model, params, (x.unsqueeze(0),)), y.unsqueeze(0))

    for step in range(5):
        x, y = torch.randn(20, 64).cuda(), torch.randint(10, (20,)).cuda()
        params = {name: p.detach() for name, p in model.named_parameters()}
        with record.without_hooks():
            each = vmap(grad(sample_loss), in_dims=(None, 0, 0))(params, x, y)
        record.take("each", step, (x, y), list(each.values()))
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        for name, p in model.named_parameters():
            p.grad = torch.einsum("n,n...->...", scale, each[name])
            p.grad += torch.randn_like(p.grad) * 0.1
        each.clear()
        record.take("summed", step, (x, y))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (x, y))


# --- slope of the critic ------------------------------------------------------------------------------------------------------

def critic_with_penalty(record):
    """The critic's slope between real and false samples is part of its loss; the generator learns every second step."""
    critic = nn.Sequential(nn.Linear(300, 512), nn.LeakyReLU(0.2), nn.Linear(512, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)).cuda()
    generator = nn.Sequential(nn.Linear(40, 256), nn.ReLU(), nn.Linear(256, 300)).cuda()
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    record.watch([critic, generator], [opt_c, opt_g])
    for it in range(4):
        real = torch.randn(64, 300).cuda()
        z = torch.randn(64, 40).cuda()
        with torch.no_grad(), record.free_choice():
            false = generator(z)
        weight = torch.rand(64, 1).cuda()
        between = (weight * real + (1 - weight) * false).requires_grad_()
        slope, = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        known = (real, z, weight, between)
        record.take("slope", it, known, (slope,))
        loss = critic(false).mean() - critic(real).mean() + 10 * (slope.norm(2, dim=1) - 1).square().mean()
        record.take("fwd", it, known, (slope,))
        opt_c.zero_grad()
        loss.backward()
        record.take("bwd", it, known, (slope,))
        opt_c.step()
        del slope, loss, between
        if it % 2:
            opt_g.zero_grad()
            adversarial = -critic(generator(z)).mean()
            record.take("gfwd", it, (real, z, weight))
            adversarial.backward()
            opt_g.step()
            del adversarial
        record.take("step", it, (real, z, weight))


# --- masters --------------------------------------------------------------------------------------------------------------

class HalfWithMasters:
    """float16 weights in the model; the optimizer has float32 ones, and a scale that reacts to overflow."""

    def __init__(self, model, lr):
        self.model_params = [p for p in model.parameters() if p.requires_grad]
        self.master_params = [nn.Parameter(p.detach().clone().float()) for p in self.model_params]
        self.optimizer = torch.optim.AdamW(self.master_params, lr=lr)
        self.scale, self.before_clipping = 2.0**12, []

    def backward(self, loss):
        (loss * self.scale).backward()

    def step(self, max_norm=1.0):
        for master, p in zip(self.master_params, self.model_params):
            if master.grad is None:
                master.grad = torch.empty_like(master)
            master.grad.copy_(p.grad)
            p.grad = None
        torch._foreach_mul_([m.grad for m in self.master_params], 1 / self.scale)
        self.before_clipping = [m.grad.clone() for m in self.master_params]
        nn.utils.clip_grad_norm_(self.master_params, max_norm)
        self.optimizer.step()
        with torch.no_grad():
            for master, p in zip(self.master_params, self.model_params):
                p.copy_(master)


def half_with_clipped_copies(record):
    """Masters keep their gradients, and those before clipping are kept for a histogram till the next step."""
    model = Mixer(depth=4).cuda().half()
    fp16 = HalfWithMasters(model, 1e-3)
    masters = types.SimpleNamespace(parameters=lambda: fp16.master_params, buffers=lambda: [])
    record.watch([model, masters], [fp16.optimizer])
    for step in range(4):
        x, y = patches(16, torch.half)
        loss = F.cross_entropy(model(x).float(), y)
        record.take("fwd", step, (x, y), fp16.before_clipping)
        fp16.backward(loss)
        record.take("bwd", step, (x, y), fp16.before_clipping)
        fp16.step()
        record.take("step", step, (x, y), fp16.before_clipping)


# --- sparse -----------------------------------------------------------------------------------------------------------------

class SkipGram(nn.Module):
    def __init__(self, words=12000, d=72):
        super().__init__()
        self.center = nn.Embedding(words, d, sparse=True)
        self.context = nn.Embedding(words, d, sparse=True)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, centers, contexts, negatives):
        c = self.center(centers).unsqueeze(2)
        positive = (self.context(contexts) @ c).squeeze(2) + self.bias
        negative = (self.context(negatives) @ c).squeeze(2) + self.bias
        return -(F.logsigmoid(positive).mean() + F.logsigmoid(-negative).mean())


def skip_gram(record):
    """Tables with sparse gradients that add up over two passes, for SparseAdam; the rest for SGD."""
    torch.manual_seed(8)
    model = SkipGram().cuda()
    optimizers = [torch.optim.SparseAdam([model.center.weight, model.context.weight], lr=1e-2),
                  torch.optim.SGD([model.bias], lr=1e-2)]
    record.watch([model], optimizers)
    for step in range(4):
        with contextlib.ExitStack() as later:
            for optimizer in optimizers:
                later.callback(optimizer.step)
                optimizer.zero_grad()
            for _ in range(2):
                batch = [torch.randint(12000, (400,) + more).cuda() for more in ((), (4,), (10,))]
                loss = model(*batch)
                record.take("fwd", step, batch)
                loss.backward()
            record.take("bwd", step, batch)
        record.take("step", step, batch)
