"""Gradients by other ways than one backward a step into .grad."""
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

from nets import begin_process_group, end_process_group

DEVICE = torch.device("cuda", 0)


def mlp(*dims):
    mods = []
    for a, b in zip(dims, dims[1:]):
        mods += [nn.Linear(a, b), nn.ELU()]
    return nn.Sequential(*mods[:-1])


class Loader:
    def __init__(self, n, rows=32, dim=300, classes=30):
        self.n, self.rows, self.dim, self.classes = n, rows, dim, classes

    def __iter__(self):
        for _ in range(self.n):
            yield {"x": torch.randn(self.rows, self.dim).to(DEVICE), "y": torch.zeros(self.rows, dtype=torch.long).to(DEVICE)}


def ddp_no_sync_views(record):
    begin_process_group()
    module = mlp(300, 500, 500, 30).to(DEVICE)
    net = nn.parallel.DistributedDataParallel(module, device_ids=[0], gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
    accumulate = 3
    record.watch([net], [opt])
    for i, b in enumerate(Loader(4 * accumulate)):
        last = (i + 1) % accumulate == 0
        with contextlib.nullcontext() if last else net.no_sync():
            loss = F.cross_entropy(net(b["x"]), b["y"]) / accumulate
            record.take("fwd", i // accumulate, b)
            loss.backward()
            record.take("bwd", i // accumulate, b)
        if last:
            opt.step()
            opt.zero_grad()
            record.take("opt", i // accumulate, b)
    end_process_group()


def maml(record):
    """Second order: inner steps whose graph the outer loss goes through."""
    net = mlp(300, 200, 200, 30).to(DEVICE)
    meta = torch.optim.Adam(net.parameters(), 1e-3)
    record.watch([net], [meta])
    it = iter(Loader(100))
    for outer in range(3):
        meta.zero_grad()
        total = 0.0
        for task in range(2):
            fast = dict(net.named_parameters())
            support, query = next(it), next(it)
            for _ in range(2):
                inner = F.cross_entropy(functional_call(net, fast, (support["x"],)), support["y"])
                grads = torch.autograd.grad(inner, tuple(fast.values()), create_graph=True)
                fast = {k: p - 0.4 * g for (k, p), g in zip(fast.items(), grads)}
            total = total + F.cross_entropy(functional_call(net, fast, (query["x"],)), query["y"])
            del grads, inner
        record.take("outer_fwd", outer, (support, query))
        del fast
        total.backward()
        record.take("outer_bwd", outer, (support, query))
        meta.step()
        record.take("meta_step", outer, (support, query))


def sparse_embedding(record):
    """word2vec: embeddings with sparse gradients and SparseAdam."""
    class SkipGram(nn.Module):
        def __init__(self, v=20000, d=64):
            super().__init__()
            self.u = nn.Embedding(v, d, sparse=True)
            self.v = nn.Embedding(v, d, sparse=True)

        def forward(self, c, p, n):
            u = self.u(c)
            pos = F.logsigmoid((u * self.v(p)).sum(1))
            neg = F.logsigmoid(-(self.v(n) @ u[:, :, None]).squeeze(2)).sum(1)
            return -(pos + neg).mean()

    sg = SkipGram().to(DEVICE)
    opt = torch.optim.SparseAdam(list(sg.parameters()), lr=1e-3)
    record.watch([sg], [opt])

    def plain_grads():  # the parts of sparse gradients
        return [t for p in sg.parameters() for t in (p.grad._values(), p.grad._indices())]


    for step in range(4):
        c, p, n = (torch.randint(20000, s).to(DEVICE) for s in ((512,), (512,), (512, 5)))
        loss = sg(c, p, n)
        record.take("fwd", step, (c, p, n))
        opt.zero_grad()
        loss.backward()
        record.note("gradient", plain_grads())
        opt.step()
        for q in sg.parameters():
            q.grad = None
        record.take("step", step, (c, p, n))


def flat_half_weights(record):
    """Weights are views of one fp16 vector, with an fp32 master vector and plain momentum."""
    net = mlp(300, 640, 640, 30).to(DEVICE)
    params = list(net.parameters())
    numel = sum(p.numel() for p in params)
    flat = torch.empty(numel, dtype=torch.float16, device=DEVICE)
    flat_grad = torch.zeros_like(flat)
    at = 0
    for p in params:
        n = p.numel()
        flat[at:at + n].copy_(p.data.view(-1))
        p.data = flat[at:at + n].view(p.shape)
        p.grad = flat_grad[at:at + n].view(p.shape)
        at += n
    master = flat.float()
    velocity = torch.zeros_like(master)
    record.watch([net])
    record.hold("parameter", lambda: [flat, master])
    record.hold("optimizer_state", lambda: [velocity])
    scale = 256.0
    for i, b in enumerate(Loader(4)):
        x = b["x"].half()
        flat_grad.zero_()
        loss = F.cross_entropy(net(x).float(), b["y"])
        record.take("fwd", i, (b, x))
        (loss * scale).backward()
        record.take("bwd", i, (b, x))
        with torch.no_grad():
            velocity.mul_(0.9).add_(flat_grad.float(), alpha=1 / scale)
            master.sub_(velocity, alpha=0.01)
            flat.copy_(master)
        record.take("update", i, (b, x))


def pgd_attack(record):
    """Adversarial training: the gradient of the input, several times for each step."""
    net = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(24 * 64, 10)).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    record.watch([net], [opt])
    for i in range(3):
        x, y = torch.rand(24, 3, 32, 32).cuda(), torch.zeros(24, dtype=torch.long).cuda()
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range(3):
            adv_loss = F.cross_entropy(net(x + delta), y)
            record.take("adv_fwd", i, (x, y, delta))
            grad, = torch.autograd.grad(adv_loss, delta)
            record.note("gradient", [grad])
            delta.data = (delta + 0.01 * grad.sign()).clamp(-0.03, 0.03).detach()
            del grad, adv_loss
        loss = F.cross_entropy(net(x + delta.detach()), y)
        record.take("fwd", i, (x, y, delta))
        opt.zero_grad()
        loss.backward()
        record.take("bwd", i, (x, y, delta))
        opt.step()
        record.take("step", i, (x, y, delta))


def gradient_surgery(record):
    """PCGrad: the gradient of each task is cloned aside, and put back together."""
    body = mlp(300, 512, 256).cuda()
    heads = nn.ModuleList([nn.Linear(256, 5) for _ in range(3)]).cuda()
    shared = list(body.parameters())
    opt = torch.optim.Adam([*shared, *heads.parameters()])
    record.watch([body, heads], [opt])
    for step, b in enumerate(Loader(3, classes=5)):
        per_task = []
        feats = body(b["x"])
        losses = [F.cross_entropy(head(feats), b["y"]) for head in heads]
        record.take("fwd", step, b)
        for k, task_loss in enumerate(losses):
            opt.zero_grad(set_to_none=True)
            task_loss.backward(retain_graph=k + 1 < len(losses))
            per_task.append([p.grad.clone() for p in shared])
            record.take("task", step, b, [g for gs in per_task for g in gs])
        del losses, task_loss, feats
        for p, *gs in zip(shared, *per_task):
            p.grad = torch.stack([g - 0.1 * gs[0] for g in gs]).sum(0)
        record.take("surgery", step, b, [g for gs in per_task for g in gs])
        opt.step()
        record.take("step", step, b, [g for gs in per_task for g in gs])
        per_task.clear()


def style_transfer(record):
    """What is trained is an image; the network is frozen; LBFGS calls a closure."""
    vgg = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU())
    vgg = vgg.cuda().eval().requires_grad_(False)
    content = torch.rand(1, 3, 128, 128).cuda()
    with torch.no_grad(), record.free_choice():
        goal = vgg(content)
    image = content.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([image], max_iter=2, history_size=4)
    record.watch([vgg], [optimizer])
    record.hold("parameter", lambda: [image])
    record.hold("gradient", lambda: [image.grad])
    record.hold("optimizer_state", lambda: list(optimizer.state[image].values()))
    record.hold("input", lambda: [content, goal])
    run = [0]
    while run[0] < 4:
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(vgg(image), goal)
            record.take("fwd", run[0])
            loss.backward()
            record.take("bwd", run[0])
            return loss
        optimizer.step(closure)
        record.take("step", run[0])
        run[0] += 1
