"""Several models in one process."""
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F


def to_device(*tensors):
    return [tensor.to("cuda", non_blocking=True) for tensor in tensors]


# --- an autoencoder with a codebook, a critic and a perceptual loss ---------------------------------------------------------

class Codebook(nn.Module):
    """Entries follow the encoder's outputs by averages that are buffers."""

    def __init__(self, entries=1024, d=64, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("embed", torch.randn(d, entries))
        self.register_buffer("cluster_size", torch.zeros(entries))
        self.register_buffer("embed_avg", self.embed.clone())

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        distance = flat.square().sum(1, keepdim=True) - 2 * flat @ self.embed + self.embed.square().sum(0, keepdim=True)
        nearest = distance.argmin(1)
        if self.training:
            self.learn(flat.detach(), nearest)
        quantized = F.embedding(nearest, self.embed.t()).view(len(z), *z.shape[2:], -1).permute(0, 3, 1, 2)
        commitment = F.mse_loss(quantized.detach(), z)
        return z + (quantized - z).detach(), commitment

    @torch.no_grad()
    def learn(self, flat, nearest):
        chosen = F.one_hot(nearest.clamp(0, 1023), self.embed.shape[1]).type_as(flat)
        self.cluster_size.mul_(self.decay).add_(chosen.sum(0), alpha=1 - self.decay)
        self.embed_avg.mul_(self.decay).add_(flat.t() @ chosen, alpha=1 - self.decay)
        self.embed.copy_(self.embed_avg / (self.cluster_size + 1e-5))


class VQ(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 4, 4), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
        self.codebook = Codebook(d=width)
        self.decoder = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.SiLU(), nn.ConvTranspose2d(width, 3, 4, 4))

    def forward(self, images):
        z, commitment = self.codebook(self.encoder(images))
        return self.decoder(z), commitment


def vq_autoencoder(record):
    """Trained against a patch critic; a frozen network compares features. The codebook learns without gradients."""
    vq = VQ().cuda()
    critic = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.BatchNorm2d(128),
                           nn.LeakyReLU(0.2), nn.Conv2d(128, 1, 3, padding=1)).cuda()
    features = nn.Sequential(nn.Conv2d(3, 48, 3, 2, 1), nn.ReLU(), nn.Conv2d(48, 96, 3, 2, 1)).cuda().eval().requires_grad_(False)
    opt_vq = torch.optim.Adam(vq.parameters(), lr=1e-4, betas=(0.5, 0.9))
    opt_critic = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.5, 0.9))
    record.watch([vq, critic, features], [opt_vq, opt_critic])
    for step in range(3):
        images, = to_device(torch.rand(6, 3, 48, 48))
        rebuilt, commitment = vq(images)
        perceptual = (features(rebuilt) - features(images)).abs().mean()
        loss = F.l1_loss(rebuilt, images) + perceptual + 0.25 * commitment - 0.1 * critic(rebuilt).mean()
        record.take("fwd", step, (images,))
        opt_vq.zero_grad()
        loss.backward()
        record.take("bwd", step, (images,))
        opt_vq.step()
        opt_critic.zero_grad()
        hinge = F.relu(1 - critic(images)).mean() + F.relu(1 + critic(rebuilt.detach())).mean()
        record.take("cfwd", step, (images,))
        hinge.backward()
        opt_critic.step()
        del rebuilt, commitment, perceptual, loss, hinge
        record.take("step", step, (images,))


# --- a branch that controls a frozen denoiser ----------------------------------------------------------------------------------

class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, 2, 1)
        self.time = nn.Linear(128, o)

    def forward(self, x, t):
        return self.conv2(F.silu(self.conv1(x) + self.time(t)[:, :, None, None]))


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128))
        self.text = nn.Linear(96, 128)
        self.downs = nn.ModuleList([Down(4, width), Down(width, 2 * width), Down(2 * width, 4 * width)])
        self.ups = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2),
                                  nn.ConvTranspose2d(width, 4, 2, 2)])

    def embed(self, t, text):
        frequencies = torch.exp(torch.arange(32, device=t.device) * (-math.log(1e4) / 32))
        angles = t[:, None].float() * frequencies
        return self.time(torch.cat([angles.sin(), angles.cos()], 1)) + self.text(text.mean(1))

    def forward(self, z, t, text, extra=()):
        e, skips = self.embed(t, text), []
        for down in self.downs:
            z = down(z, e)
            skips.append(z)
        z = 0
        for i, up in enumerate(self.ups):
            skip = skips.pop()
            z = up(z + skip + (extra[-1 - i] if extra else 0))
        return z


class ControlBranch(nn.Module):
    """A trained copy of the way down, and convolutions that begin at zero."""

    def __init__(self, base, width=48):
        super().__init__()
        self.embed, self.downs = copy.deepcopy(nn.ModuleList([base.time, base.text])), copy.deepcopy(base.downs)
        self.hint = nn.Conv2d(1, 4, 8, 8)
        self.zeros = nn.ModuleList(nn.Conv2d(width * 2**i, width * 2**i, 1) for i in range(3))
        for zero in self.zeros:
            nn.init.zeros_(zero.weight)
            nn.init.zeros_(zero.bias)

    def forward(self, z, e, hint):
        z, out = z + self.hint(hint), []
        for down, zero in zip(self.downs, self.zeros):
            z = down(z, e)
            out.append(zero(z))
        return out


def controlled_denoiser(record):
    """Frozen: encoders of text and pictures, and the denoiser. A branch beside it learns from edge maps."""
    torch.manual_seed(4)
    text_encoder = nn.Sequential(nn.Embedding(2000, 96), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 96)).half().cuda()
    vae = nn.Sequential(nn.Conv2d(3, 32, 4, 4), nn.SiLU(), nn.Conv2d(32, 8, 2, 2)).half().cuda()
    base = Denoiser().cuda()
    branch = ControlBranch(base).cuda()
    for frozen in (text_encoder, vae, base):
        frozen.requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(branch.parameters(), lr=1e-5)
    record.watch([text_encoder, vae, base, branch], [optimizer])
    for step in range(4):
        pixels, edges, ids = to_device(torch.rand(4, 3, 128, 128).half(), torch.rand(4, 1, 128, 128), torch.randint(2000, (4, 24)))
        t, = to_device(torch.randint(1000, (4,)))
        with torch.no_grad(), record.free_choice():
            mean, _ = vae(pixels).chunk(2, 1)
            latents, text = (mean * 0.18).float(), text_encoder(ids).float()
            del mean
        noise = torch.randn_like(latents)
        noisy = latents + noise * (t / 1000).view(-1, 1, 1, 1)
        loss = F.mse_loss(base(noisy, t, text, branch(noisy, base.embed(t, text), edges)), noise)
        batch = (pixels, edges, ids, t, noise, latents, text)
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)


# --- policy, reference, reward, value ---------------------------------------------------------------------------------------------

class Lm(nn.Module):
    """A small language model; keys and values may be given, and are given back."""

    def __init__(self, vocab=600, d=144, layers=2, out=None):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(layers))
        self.mlp = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
                                 for _ in range(layers))
        self.head = nn.Linear(d, out or vocab)

    def forward(self, ids, past=None):
        x, present = self.embed(ids), []
        for i, (qkv, mlp) in enumerate(zip(self.qkv, self.mlp)):
            q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in qkv(x).chunk(3, -1))
            if past is not None:
                k, v = torch.cat([past[i][0], k], 2), torch.cat([past[i][1], v], 2)
            present.append((k, v))
            x = x + F.scaled_dot_product_attention(q, k, v, is_causal=past is None).transpose(1, 2).flatten(2)
            x = x + mlp(x)
        return self.head(x), present


class Rollouts:
    """Writes answers with the policy, and asks the other models what they are worth."""

    def __init__(self, record, policy, reference, reward, value):
        self.record, self.past = record, []
        self.policy, self.reference, self.reward, self.value = policy, reference, reward, value

    def log_probabilities(self, model, ids):
        logits = model(ids[:, :-1])[0]
        return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)

    @torch.no_grad()
    def collect(self, prompt, tokens, step):
        ids = prompt
        logits, self.past = self.policy(prompt)
        for n in range(tokens):
            self.record.note("kv_cache", [t for pair in self.past for t in pair])
            token = logits[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, token], 1)
            logits, self.past = self.policy(token, self.past)
        self.record.take("written", step, (prompt, ids))
        self.past = []
        old = self.log_probabilities(self.policy, ids)
        kl = old - self.log_probabilities(self.reference, ids)
        values = self.value(ids[:, :-1])[0].squeeze(-1)
        returns = self.reward(ids)[0][:, -1] - 0.05 * kl
        return {"ids": ids, "old": old, "advantages": returns - values, "returns": returns}


def ppo_with_rollouts(record):
    """Four language models; answers are written with keys and values kept, then two passes over them."""
    policy = Lm().cuda()
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    reward, value = Lm(out=1).cuda().eval().requires_grad_(False), Lm(out=1).cuda()
    optimizer = torch.optim.AdamW([{"params": policy.parameters(), "lr": 1e-5}, {"params": value.parameters(), "lr": 3e-5}])
    record.watch([policy, reference, reward, value], [optimizer])
    rollouts = Rollouts(record, policy, reference, reward, value)
    record.hold("kv_cache", lambda: rollouts.past)
    step = 0
    for _ in range(2):
        prompt, = to_device(torch.randint(600, (8, 48)))
        with record.free_choice():
            batch = rollouts.collect(prompt, 6, step)
        for _ in range(2):
            ratio = (rollouts.log_probabilities(policy, batch["ids"]) - batch["old"]).exp()
            gain = torch.min(ratio * batch["advantages"], ratio.clamp(0.8, 1.2) * batch["advantages"]).mean()
            error = F.mse_loss(value(batch["ids"][:, :-1])[0].squeeze(-1), batch["returns"])
            record.take("fwd", step, (prompt, batch))
            (error - gain).backward()
            record.take("bwd", step, (prompt, batch))
            optimizer.step()
            optimizer.zero_grad()
            record.take("step", step, (prompt, batch))
            step += 1


# --- low rank, merged for evaluation -------------------------------------------------------------------------------------------------

class LowRank(nn.Module):
    def __init__(self, base, r=8, alpha=16):
        super().__init__()
        self.base, self.scale, self.unmerged = base.requires_grad_(False), alpha / r, None
        self.a = nn.Parameter(torch.randn(r, base.in_features, device="cuda") / r)
        self.b = nn.Parameter(torch.zeros(base.out_features, r, device="cuda"))

    def merge(self):
        self.unmerged = self.base.weight.data
        self.base.weight.data = self.unmerged + self.scale * self.b.data @ self.a.data

    def unmerge(self):
        self.base.weight.data, self.unmerged = self.unmerged, None

    def forward(self, x):
        y = self.base(x)
        return y if self.unmerged is not None else y + self.scale * F.linear(F.linear(x, self.a), self.b)


def low_rank_merged(record):
    """Every second step the low ranks are added into the weights for evaluation; those without them wait."""
    model = nn.Sequential(nn.Linear(320, 960), nn.GELU(), nn.Linear(960, 960), nn.GELU(), nn.Linear(960, 32)).cuda()
    for i in (0, 2, 4):
        model[i] = LowRank(model[i])
    adapters = [model[i] for i in (0, 2, 4)]
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    record.watch([model], [optimizer])
    record.hold("parameter", lambda: [adapter.unmerged for adapter in adapters])
    for step in range(4):
        x, y = to_device(torch.randn(80, 320), torch.randint(32, (80,)))
        loss = F.cross_entropy(model(x), y)
        record.take("fwd", step, (x, y))
        loss.backward()
        record.take("bwd", step, (x, y))
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            for adapter in adapters:
                adapter.merge()
            with torch.no_grad(), record.free_choice():
                logits = model(x)
                record.take("merged", step, (x, y))
            del logits
            for adapter in adapters:
                adapter.unmerge()
        record.take("step", step, (x, y))


# --- experts that learn from a dense teacher ---------------------------------------------------------------------------------------------

class Experts(nn.Module):
    """All experts' weights in one tensor; each token goes to two of them, as far as there are places."""

    def __init__(self, d=128, hidden=256, experts=6, places=48):
        super().__init__()
        self.places, self.router = places, nn.Linear(d, experts, bias=False)
        self.w_in = nn.Parameter(torch.randn(experts, d, hidden) / d**0.5)
        self.w_out = nn.Parameter(torch.randn(experts, hidden, d) / hidden**0.5)
        self.balance = None

    def forward(self, x):
        gates = self.router(x).softmax(-1)
        weight, rows = gates.t().topk(self.places, dim=1)  # experts choose tokens
        self.balance = gates.mean(0).square().sum()
        h = torch.einsum("epd,edh->eph", x[rows], self.w_in)
        out = torch.einsum("eph,ehd->epd", F.gelu(h), self.w_out) * weight.unsqueeze(-1)
        return x + torch.zeros_like(x).index_add(0, rows.flatten(), out.flatten(0, 1))


class Sparse(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.inp, self.out = nn.Linear(200, 128), nn.Linear(128, 50)
        self.experts = nn.ModuleList(Experts() for _ in range(depth))

    def forward(self, x):
        h = self.inp(x)
        for layer in self.experts:
            h = layer(h)
        return self.out(h), sum(layer.balance for layer in self.experts)


def experts_from_dense(record):
    """A mixture of experts is distilled from a large dense network in bfloat16."""
    teacher = nn.Sequential(nn.Linear(200, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 50))
    teacher.to("cuda", torch.bfloat16).eval().requires_grad_(False)
    student = Sparse().cuda()
    optimizer = torch.optim.Adamax(student.parameters(), lr=2e-3)
    record.watch([teacher, student], [optimizer])
    for step in range(4):
        x, = to_device(torch.randn(128, 200))
        with torch.no_grad(), record.free_choice():
            wanted = (teacher(x.bfloat16()).float() / 2).softmax(-1)
        logits, balance = student(x)
        loss = F.kl_div((logits / 2).log_softmax(-1), wanted, reduction="batchmean") + 0.01 * balance
        record.take("fwd", step, (x,))
        loss.backward()
        record.take("bwd", step, (x,))
        optimizer.step()
        optimizer.zero_grad()
        for layer in student.experts:
            layer.balance = None
        record.take("step", step, (x,))
