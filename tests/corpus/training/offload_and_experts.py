"""Offload, checkpointing, several models at once, experts, quantized bases."""
import collections
import copy
from types import SimpleNamespace

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts, CheckpointPolicy


def cuda(*shape, **kw):
    return torch.randn(*shape, **kw).to("cuda")


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return x + self.f(x)


def regress(record, model, opt, forward, batch, steps=3):
    record.watch([model], [opt])
    for i in range(steps):
        x, t = batch()
        loss = F.mse_loss(forward(x), t)
        record.take("fwd", i, (x, t))
        loss.backward()
        record.take("bwd", i, (x, t))
        opt.step()
        record.take("step", i, (x, t))
        opt.zero_grad()


def offload_saved(record):
    """Activations wait in host memory."""
    net = nn.Sequential(*[Residual(256) for _ in range(3)]).cuda()

    def forward(x):
        with torch.autograd.graph.save_on_cpu():
            return net(x)

    regress(record, net, torch.optim.Adam(net.parameters()), forward, lambda: (cuda(96, 256), cuda(96, 256)))


class Offloader:
    """Copies large activations out on a stream of its own, and brings them back one before they are needed."""

    def __init__(self, threshold=64 << 10):
        self.stream, self.threshold = torch.cuda.Stream(), threshold

    def pack(self, t):
        if t.numel() * t.element_size() < self.threshold or isinstance(t, nn.Parameter):
            return t
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            host.copy_(t, non_blocking=True)
        t.record_stream(self.stream)
        return host

    def unpack(self, t):
        return t.to("cuda", non_blocking=True)

    def __call__(self):
        return torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)


def offload_async(record):
    net = nn.Sequential(*[Residual(192) for _ in range(4)], nn.Linear(192, 8)).cuda()
    offload = Offloader()

    def pack(t):
        kept = original(t)
        if kept is t:  # the others' hooks are hidden by these
            record.note("activation", [t])
        return kept

    original, offload.pack = offload.pack, pack

    def forward(x):
        with offload():
            return net(x)

    regress(record, net, torch.optim.SGD(net.parameters(), 0.1), forward, lambda: (cuda(160, 192), cuda(160, 8)))


def selective_checkpointing(record):
    """Products are kept, all else is computed again."""
    net = nn.ModuleList([Residual(224) for _ in range(3)]).cuda()
    keep = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op in keep else CheckpointPolicy.PREFER_RECOMPUTE

    def forward(x):
        for layer in net:
            x = checkpoint(layer, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(policy))
        return x

    regress(record, net, torch.optim.AdamW(net.parameters()), forward, lambda: (cuda(80, 224), cuda(80, 224)))


def segments(record):
    net = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.BatchNorm1d(256)) for _ in range(8)]).cuda()
    regress(record, net, torch.optim.RMSprop(net.parameters(), momentum=0.5),
            lambda x: checkpoint_sequential(net, 3, x, use_reentrant=True), lambda: (cuda(64, 256).requires_grad_(), cuda(64, 256)))


# --- RLHF -----------------------------------------------------------------------------------------------------------

class TinyLM(nn.Module):
    def __init__(self, vocab=500, d=160, out=None):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.h = nn.Sequential(Residual(d), Residual(d))
        self.lm_head = nn.Linear(d, out or vocab)

    def forward(self, ids):
        return self.lm_head(self.h(self.wte(ids)))


def logprobs(logits, ids):
    return logits.log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def rlhf(record):
    """PPO with policy, reference, reward and value, all of one size."""
    torch.manual_seed(1)
    policy = TinyLM().cuda()
    ref = copy.deepcopy(policy).eval()
    reward = TinyLM(out=500).cuda().eval()
    value = TinyLM(out=500).cuda()
    for frozen in (ref, reward):
        frozen.requires_grad_(False)
    actor = torch.optim.AdamW(policy.parameters(), 1e-5)
    critic = torch.optim.AdamW(value.parameters(), 1e-5)
    record.watch([policy, ref, reward, value], [actor, critic])
    step = 0
    for iteration in range(2):
        queries = torch.randint(500, (8, 20)).cuda()
        with torch.no_grad(), record.free_choice():
            old = logprobs(policy(queries), queries)
            kl = old - logprobs(ref(queries), queries)
            returns = reward(queries).mean(-1) - 0.1 * kl
        for _ in range(2):
            new = logprobs(policy(queries), queries)
            ratio = (new - old).exp()
            adv = returns - value(queries).mean(-1)
            pg = -(ratio * adv.detach()).mean()
            vf = adv.square().mean()
            record.take("fwd", step, queries)
            (pg + vf).backward()
            record.take("bwd", step, queries)
            for o in (actor, critic):
                o.step()
                o.zero_grad()
            record.take("step", step, queries)
            step += 1


# --- experts --------------------------------------------------------------------------------------------------------

class MoE(nn.Module):
    def __init__(self, d=128, experts=6):
        super().__init__()
        self.router = nn.Linear(d, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d)) for _ in range(experts))

    def forward(self, x, chosen):
        gates = self.router(x).softmax(-1)
        out = torch.zeros_like(x)
        size = len(x) // len(chosen)
        for n, e in enumerate(chosen):
            part = slice(n * size, (n + 1) * size)
            out[part] += self.experts[e](x[part]) * gates[part, e:e + 1]
        return out


def mixture_of_experts(record):
    """Experts that come late get their state late."""
    moe = MoE().cuda()
    head = nn.Linear(128, 4).cuda()
    opt = torch.optim.AdamW([*moe.parameters(), *head.parameters()])
    record.watch([moe, head], [opt])
    for i, chosen in enumerate([(0, 1), (1, 2), (0, 3), (4, 1), (5, 2)]):
        x, t = cuda(64, 128), cuda(64, 4)
        loss = F.mse_loss(head(moe(x, chosen)), t)
        record.take("fwd", i, (x, t))
        loss.backward()
        record.take("bwd", i, (x, t))
        opt.step()
        record.take("step", i, (x, t))
        opt.zero_grad()


# --- diffusion ------------------------------------------------------------------------------------------------------

class UNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 4 * c), nn.SiLU(), nn.Linear(4 * c, 2 * c))
        self.inp, self.down = nn.Conv2d(4, c, 3, padding=1), nn.Conv2d(c, 2 * c, 4, 2, 1)
        self.mid = nn.Conv2d(2 * c, 2 * c, 3, padding=1)
        self.text = nn.Linear(64, 2 * c)
        self.up, self.out = nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.Conv2d(2 * c, 4, 3, padding=1)

    def forward(self, z, t, text):
        a = self.inp(z)
        b = self.down(a) + self.time(t)[..., None, None] + self.text(text).mean(1)[..., None, None]
        return self.out(torch.cat([a, self.up(F.silu(self.mid(b)))], 1))


def latent_diffusion(record):
    """Frozen encoders of images and text, a U-Net, and its average."""
    vae = nn.Sequential(nn.Conv2d(3, 32, 4, 4), nn.SiLU(), nn.Conv2d(32, 4, 1)).cuda().requires_grad_(False)
    text_encoder = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 64)).cuda().requires_grad_(False)
    unet = UNet().cuda()
    ema_unet = copy.deepcopy(unet).requires_grad_(False)
    optimizer = torch.optim.AdamW(unet.parameters())
    alphas = torch.linspace(0.99, 0.01, 1000).cuda()
    record.watch([vae, text_encoder, unet, ema_unet], [optimizer])
    record.hold("buffer", lambda: [alphas])
    for step in range(3):
        batch = {"pixel_values": cuda(6, 3, 64, 64), "input_ids": torch.randint(1000, (6, 16)).cuda()}
        with torch.no_grad():
            latents = vae(batch["pixel_values"])
            hidden = text_encoder(batch["input_ids"])
        noise = torch.randn_like(latents)
        t = torch.randint(1000, (6,)).cuda()
        a = alphas[t][:, None, None, None]
        noisy = latents * a.sqrt() + noise * (1 - a).sqrt()
        emb = torch.randn(6, 32).cuda()
        del latents
        loss = F.mse_loss(unet(noisy, emb, hidden), noise)
        known = [batch, t, noise, emb]
        record.take("fwd", step, known)
        loss.backward()
        record.take("bwd", step, known)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for e, p in zip(ema_unet.parameters(), unet.parameters()):
                e.lerp_(p, 0.01)
        record.take("step", step, known)


# --- quantized base -------------------------------------------------------------------------------------------------

class Int8Linear(nn.Module):
    """Frozen weight in int8 with a scale for each row, and a low-rank part that learns."""

    def __init__(self, linear, r=4):
        super().__init__()
        w = linear.weight.detach()
        scale = w.abs().amax(1, keepdim=True) / 127
        self.register_buffer("qweight", torch.round(w / scale.clamp_min(1e-8)).to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = nn.Parameter(linear.bias.detach().clone(), requires_grad=False)
        self.lora_a = nn.Parameter(torch.randn(r, w.shape[1], device=w.device) * 0.01)
        self.lora_b = nn.Parameter(torch.zeros(w.shape[0], r, device=w.device))

    def forward(self, x):
        w = self.qweight.to(x.dtype) * self.scale
        return F.linear(x, w, self.bias) + x @ self.lora_a.t() @ self.lora_b.t()


def quantized_lora(record):
    base = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512), nn.GELU(), nn.Linear(512, 64)).cuda()
    for i, m in enumerate(base):
        if isinstance(m, nn.Linear):
            base[i] = Int8Linear(m)
    del m
    opt = torch.optim.AdamW([p for p in base.parameters() if p.requires_grad], lr=2e-4)
    regress(record, base, opt, base, lambda: (cuda(40, 512), cuda(40, 64)))


def lr_search(record):
    """Models of several sizes one after the other, of which the best stays."""
    results = collections.OrderedDict()
    best = None
    step = 0
    for width, lr in ((128, 0.1), (256, 0.03), (256, 0.01)):
        net = nn.Sequential(nn.Linear(200, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8)).cuda()
        opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        record.watch([net] + ([best.net] if best else []), [opt] + ([best.opt] if best else []))
        for _ in range(3):
            x, t = cuda(32, 200), cuda(32, 8)
            loss = F.mse_loss(net(x), t)
            record.take("fwd", step, (x, t))
            opt.zero_grad()
            loss.backward()
            record.take("bwd", step, (x, t))
            opt.step()
            record.take("step", step, (x, t))
            step += 1
        results[width, lr] = 1.0 / (1 + step)
        if best is None or width == 256:
            best = SimpleNamespace(net=net, opt=opt)
        del net, opt, loss
