"""Diffusion: noise in pictures, flows in latents that a text steers, and the autoencoder that makes latents."""
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

device = torch.device("cuda:0")


# --- noise in pictures --------------------------------------------------------------------------------------------------------

class TimeBlock(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, i), nn.Conv2d(i, o, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1)
        self.time, self.skip = nn.Linear(t, o), nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


def sinusoids(t, dim):
    angles = t[:, None].float() * torch.exp(torch.arange(dim // 2, device=t.device) * (-math.log(10000.0) / (dim // 2)))
    return torch.cat([angles.sin(), angles.cos()], -1)


class UNet(nn.Module):
    def __init__(self, channels=3, widths=(32, 64, 128), t=128):
        super().__init__()
        self.t, self.inp = t, nn.Conv2d(channels, widths[0], 3, padding=1)
        self.time = nn.Sequential(nn.Linear(t, t), nn.SiLU(), nn.Linear(t, t))
        pairs = list(zip((widths[0], *widths), widths))
        self.down = nn.ModuleList(TimeBlock(i, o, t) for i, o in pairs)
        self.mid = TimeBlock(widths[-1], widths[-1], t)
        self.up = nn.ModuleList(TimeBlock(2 * o, i, t) for i, o in reversed(pairs))
        self.out = nn.Sequential(nn.GroupNorm(8, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], channels, 3, padding=1))

    def forward(self, x, t):
        t, x, kept = self.time(sinusoids(t, self.t)), self.inp(x), []
        for block in self.down:
            x = block(x, t)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.mid(x, t)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), kept.pop()], 1), t)
        return self.out(x)


class Ema:
    def __init__(self, model, decay=0.999):
        self.model, self.decay = copy.deepcopy(model).eval().requires_grad_(False), decay

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - self.decay)


def ddpm_with_average(record):
    """Pictures at random times; the averaged network draws a few pictures every second step."""
    unet = UNet().to(device)
    ema = Ema(unet)
    optimizer = torch.optim.Adam(unet.parameters(), lr=2e-4)
    betas = torch.linspace(1e-4, 0.02, 1000, device=device)
    alphas_bar = torch.cumprod(1 - betas, 0)
    record.watch([unet, ema.model], [optimizer])
    record.hold("open", lambda: [betas, alphas_bar])

    @torch.no_grad()
    def draw(count=4, steps=3):
        x = torch.randn(count, 3, 64, 64, device=device)
        for i in reversed(range(steps)):
            t = torch.full((count,), i, device=device)
            eps = ema.model(x, t)
            x = (x - betas[i] / (1 - alphas_bar[i]).sqrt() * eps) / (1 - betas[i]).sqrt()
            if i:
                x = x + betas[i].sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1).cpu()

    for step in range(4):
        x0 = (torch.rand(8, 3, 64, 64) * 2 - 1).to(device)
        t = torch.randint(0, 1000, (8,)).to(device)
        noise = torch.randn_like(x0)
        a = alphas_bar[t][:, None, None, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        batch = (x0, t, noise, xt, a)
        loss = F.mse_loss(unet(xt, t), noise)
        record.take("fwd", step, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        record.take("bwd", step, batch)
        optimizer.step()
        ema.update(unet)
        record.take("step", step, batch)
        if step % 2:
            with record.free_choice():
                draw()


# --- flows that a text steers -------------------------------------------------------------------------------------------------

class DiTBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d, elementwise_affine=False) for _ in range(3))
        self.attn, self.cross = (nn.MultiheadAttention(d, heads, batch_first=True) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d))
        self.modulate = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))

    def forward(self, x, cond, text):
        s1, c1, g1, s2, c2, g2 = self.modulate(cond)[:, None].chunk(6, -1)
        h = self.norm1(x) * (1 + c1) + s1
        x = x + g1 * self.attn(h, h, h, need_weights=False)[0]
        x = x + self.cross(self.norm2(x), text, text, need_weights=False)[0]
        return x + g2 * self.mlp(self.norm3(x) * (1 + c2) + s2)


class DiT(nn.Module):
    def __init__(self, channels=4, d=192, depth=4, text=128, side=16, patch=2):
        super().__init__()
        self.patch, self.side = patch, side
        self.inp, self.text = nn.Linear(channels * patch ** 2, d), nn.Linear(text, d)
        self.pos = nn.Parameter(torch.zeros(1, (side // patch) ** 2, d))
        self.time = nn.Sequential(nn.Linear(64, d), nn.SiLU(), nn.Linear(d, d))
        self.blocks = nn.ModuleList(DiTBlock(d, 6) for _ in range(depth))
        self.out = nn.Linear(d, channels * patch ** 2)

    def forward(self, z, t, text):
        x = F.unfold(z, self.patch, stride=self.patch).transpose(1, 2)
        x = self.inp(x) + self.pos
        cond, text = self.time(sinusoids(t * 1000, 64).to(z.dtype)), self.text(text)
        for block in self.blocks:
            x = block(x, cond, text)
        return F.fold(self.out(x).transpose(1, 2), (self.side, self.side), self.patch, stride=self.patch)


def flow_matching_with_text(record):
    """A frozen CLIP text encoder in half precision, some texts dropped; bfloat16 autocast; latents come from the loader."""
    from transformers import CLIPTextConfig, CLIPTextModel

    text_encoder = CLIPTextModel(CLIPTextConfig(vocab_size=3000, hidden_size=128, intermediate_size=512, num_hidden_layers=3,
                                                num_attention_heads=4, max_position_embeddings=32))
    text_encoder.to(device, torch.float16).eval().requires_grad_(False)
    dit = DiT().to(device)
    optimizer = torch.optim.AdamW(dit.parameters(), lr=1e-4, weight_decay=0.01)
    record.watch([text_encoder, dit], [optimizer])
    for step in range(4):
        z1, words = torch.randn(16, 4, 16, 16).to(device), torch.randint(1, 3000, (16, 32)).to(device)
        with torch.no_grad(), record.free_choice():
            text = text_encoder(input_ids=words).last_hidden_state.float()
        dropped = (torch.rand(16) < 0.1).to(device)
        text = torch.where(dropped[:, None, None], torch.zeros_like(text), text)
        z0, t = torch.randn_like(z1), torch.sigmoid(torch.randn(16, device=device))
        zt = (1 - t)[:, None, None, None] * z0 + t[:, None, None, None] * z1
        batch = (z1, words, text, dropped, z0, t, zt)
        with torch.autocast("cuda", torch.bfloat16):
            flow = dit(zt, t, text)
        loss = (flow.float() - (z1 - z0)).square().mean()
        record.take("fwd", step, batch)
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, batch)


# --- the autoencoder ----------------------------------------------------------------------------------------------------------

class AutoencoderKL(nn.Module):
    def __init__(self, widths=(32, 64, 128), latent=4):
        super().__init__()
        layers = [nn.Conv2d(3, widths[0], 3, padding=1)]
        for i, o in zip(widths, widths[1:]):
            layers += [nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, 2, 1)]
        self.encoder = nn.Sequential(*layers, nn.SiLU(), nn.Conv2d(widths[-1], 2 * latent, 3, padding=1))
        layers = [nn.Conv2d(latent, widths[-1], 3, padding=1)]
        for i, o in zip(widths[:0:-1], widths[-2::-1]):
            layers += [nn.GroupNorm(8, i), nn.SiLU(), nn.Upsample(scale_factor=2.0), nn.Conv2d(i, o, 3, padding=1)]
        self.decoder = nn.Sequential(*layers, nn.SiLU(), nn.Conv2d(widths[0], 3, 3, padding=1))

    def forward(self, x):
        mean, logvar = self.encoder(x).chunk(2, 1)
        logvar = logvar.clamp(-30, 20)
        z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
        return self.decoder(z), mean, logvar


def kl_autoencoder(record):
    """Reconstruction, divergence, and a critic of patches that begins at the third step."""
    vae = AutoencoderKL().to(device)
    critic = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.BatchNorm2d(128),
                           nn.LeakyReLU(0.2), nn.Conv2d(128, 1, 4, 1, 1)).to(device)
    opt_vae = torch.optim.Adam(vae.parameters(), lr=4.5e-6, betas=(0.5, 0.9))
    opt_critic = torch.optim.Adam(critic.parameters(), lr=4.5e-6, betas=(0.5, 0.9))
    record.watch([vae, critic], [opt_vae, opt_critic])
    for step in range(5):
        x = (torch.rand(4, 3, 96, 96) * 2 - 1).to(device)
        rebuilt, mean, logvar = vae(x)
        loss = (x - rebuilt).abs().mean() + 1e-6 * 0.5 * (mean ** 2 + logvar.exp() - 1 - logvar).sum() / len(x)
        if step >= 2:
            loss = loss - 0.5 * critic(rebuilt).mean()
        record.take("fwd", step, (x,))
        opt_vae.zero_grad()
        loss.backward()
        record.take("bwd", step, (x,))
        opt_vae.step()
        if step >= 2:
            real, fake = critic(x), critic(rebuilt.detach())
            critic_loss = 0.5 * (F.relu(1 - real).mean() + F.relu(1 + fake).mean())
            opt_critic.zero_grad()
            critic_loss.backward()
            record.take("critic", step, (x,))
            opt_critic.step()
        record.take("step", step, (x,))
