"""More than one network in a process: diffusion, adversaries, teachers, experts, searches."""
import copy
import itertools

import torch
import torchvision
from torch import nn
from torch.nn import functional as F


# --- diffusion -----------------------------------------------------------------------------------------------------------------

def text_to_image_step(record):
    """A UNet learns noise in latents; the text encoder and the autoencoder are frozen, the UNet's average is kept."""
    from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
    from diffusers.training_utils import EMAModel
    from transformers import CLIPTextConfig, CLIPTextModel

    text_encoder = CLIPTextModel(CLIPTextConfig(vocab_size=2000, hidden_size=96, intermediate_size=256,
                                                num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=24))
    vae = AutoencoderKL(block_out_channels=(16, 32), down_block_types=("DownEncoderBlock2D",) * 2, norm_num_groups=8,
                        up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, sample_size=32)
    unet = UNet2DConditionModel(sample_size=16, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
                                down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=96,
                                attention_head_dim=8)
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    vae.requires_grad_(False)
    text_encoder.requires_grad_(False)
    unet.train()
    ema = EMAModel(unet.parameters(), decay=0.999)
    unet.to("cuda"), vae.to("cuda"), text_encoder.to("cuda"), ema.to("cuda")
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    record.watch([unet, vae, text_encoder], [optimizer])
    record.hold("checkpoint_copy", lambda: ema.shadow_params)
    for step in range(4):
        pixels, words = torch.rand(2, 3, 32, 32).cuda(), torch.randint(0, 2000, (2, 24)).cuda()
        with torch.no_grad(), record.free_choice():
            latents = vae.encode(pixels).latent_dist.sample() * vae.config.scaling_factor
            states = text_encoder(words)[0]
        noise = torch.randn_like(latents)
        timesteps = torch.randint(0, 1000, (2,), device="cuda")
        noisy = scheduler.add_noise(latents, noise, timesteps.clamp(0, 999))
        inputs = (pixels, words, latents, states, noise, timesteps, noisy)
        predicted = unet(noisy, timesteps, states, return_dict=False)[0]
        loss = F.mse_loss(predicted.float(), noise.float())
        record.take("fwd", step, inputs)
        loss.backward()
        nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        record.take("bwd", step, inputs)
        optimizer.step()
        optimizer.zero_grad()
        ema.step(unet.parameters())
        record.take("step", step, inputs)


# --- adversaries -----------------------------------------------------------------------------------------------------------------

def weights_init(m):
    if isinstance(m, nn.ConvTranspose2d) or isinstance(m, nn.Conv2d):
        nn.init.normal_(m.weight.data, 0.0, 0.02)


def dcgan_tutorial(record):
    """PyTorch's tutorial: real and false pictures in two backward passes, lists of losses, pictures of a fixed noise."""
    nz, ngf, ndf = 64, 48, 48
    netG = nn.Sequential(
        nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 4), nn.ReLU(True),
        nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
        nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
        nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh()).to("cuda")
    netD = nn.Sequential(
        nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 4), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False), nn.Sigmoid()).to("cuda")
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCELoss()
    fixed_noise = torch.randn(16, nz, 1, 1, device="cuda")
    optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    record.watch([netG, netD], [optimizerD, optimizerG])
    record.hold("input", lambda: [fixed_noise])
    img_list, G_losses, D_losses = [], [], []
    for step in range(5):
        netD.zero_grad()
        real = torch.rand(8, 3, 32, 32).to("cuda")
        label = torch.full((8,), 1.0, dtype=torch.float, device="cuda")
        errD_real = criterion(netD(real).view(-1), label)
        errD_real.backward()
        noise = torch.randn(8, nz, 1, 1, device="cuda")
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        record.take("dfwd", step, (real, label, noise))
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        record.take("dstep", step, (real, label, noise))
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        record.take("gbwd", step, (real, label, noise))
        optimizerG.step()
        G_losses.append(errG.item())
        D_losses.append(errD.item())
        if step % 2 == 0:
            with torch.no_grad(), record.free_choice():
                fake = netG(fixed_noise).detach().cpu()
            img_list.append(torchvision.utils.make_grid(fake, padding=2, normalize=True))
        record.take("gstep", step, (real, label, noise))


# --- contrast without negatives -----------------------------------------------------------------------------------------------------

class BYOL(nn.Module):
    def __init__(self, width=48, dim=256):
        super().__init__()
        encoder = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
                                nn.Conv2d(width, 4 * width, 3, 2, 1), nn.BatchNorm2d(4 * width), nn.ReLU(),
                                nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16 * width, 1024), nn.BatchNorm1d(1024), nn.ReLU(),
                                nn.Linear(1024, dim))
        self.online = encoder
        self.predictor = nn.Sequential(nn.Linear(dim, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, dim))
        self.target = copy.deepcopy(encoder)
        for p in self.target.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def update_target(self, tau):
        for online, target in zip(self.online.parameters(), self.target.parameters()):
            target.data = tau * target.data + (1 - tau) * online.data

    def forward(self, one, two):
        p1, p2 = self.predictor(self.online(one)), self.predictor(self.online(two))
        with torch.no_grad():
            z1, z2 = self.target(one).detach(), self.target(two).detach()
        return 2 - F.cosine_similarity(p1, z2).mean() - F.cosine_similarity(p2, z1).mean()


def byol(record):
    """The target's weights are replaced by new tensors at each step; views are made on the device."""
    model = BYOL().cuda()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
    augment = torchvision.transforms.Compose([torchvision.transforms.RandomHorizontalFlip(1.0),
                                              torchvision.transforms.GaussianBlur(3)])
    record.watch([model], [optimizer])
    for step in range(5):
        images = torch.rand(16, 3, 32, 32).cuda()
        one, two = augment(images), augment(images)
        loss = model(one, two)
        record.take("fwd", step, (images, one, two))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (images, one, two))
        optimizer.step()
        model.update_target(0.99)
        record.take("step", step, (images, one, two))


# --- distillation -------------------------------------------------------------------------------------------------------------------

def distilled_into_small(record):
    """Soft targets and hidden features of a larger teacher, which forward hooks put aside."""
    teacher = torchvision.models.squeezenet1_1(num_classes=20).cuda().eval()
    student = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64),
                            nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(),
                            nn.Linear(512, 20)).cuda()
    regressor = nn.Conv2d(64, 512, 1).cuda()
    features = {}
    student[5].register_forward_hook(lambda module, inputs, output: features.__setitem__("student", output))
    teacher.features.register_forward_hook(lambda module, inputs, output: features.__setitem__("teacher", output.mean((2, 3))))
    optimizer = torch.optim.AdamW(itertools.chain(student.parameters(), regressor.parameters()), lr=1e-3)
    record.watch([teacher, student, regressor], [optimizer])
    T = 4.0
    for step in range(5):
        images, labels = torch.rand(8, 3, 64, 64).cuda(), torch.randint(0, 20, (8,)).cuda()
        with torch.no_grad(), record.free_choice():
            teacher_logits = teacher(images)
        student_logits = student(images)
        hint = regressor(features["student"]).mean((2, 3))
        soft = F.kl_div(F.log_softmax(student_logits / T, 1), F.softmax(teacher_logits / T, 1), reduction="batchmean") * T * T
        loss = 0.7 * soft + 0.3 * F.cross_entropy(student_logits, labels) + 0.1 * F.mse_loss(hint, features["teacher"])
        record.take("fwd", step, (images, labels))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (images, labels))
        optimizer.step()
        record.take("step", step, (images, labels))


# --- experts -------------------------------------------------------------------------------------------------------------------------

class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(d, 2 * d, bias=False), nn.Linear(2 * d, d, bias=False), nn.Linear(d, 2 * d, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):
    def __init__(self, d, experts=6, k=2):
        super().__init__()
        self.k, self.gate = k, nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList(Expert(d) for _ in range(experts))

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        weights, chosen = torch.topk(self.gate(flat).softmax(-1), self.k)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows = torch.arange(number, len(flat), len(self.experts), device=x.device).clamp(0, len(flat) - 1)
            out.index_add_(0, rows, expert(flat[rows]) * weights[rows, :1])
        load = F.one_hot(chosen.clamp(0, len(self.experts) - 1), len(self.experts)).float().mean((0, 1))
        self.balance = (load * weights.mean()).sum()
        return out.view_as(x)


class MoEDecoder(nn.Module):
    def __init__(self, words=1500, d=160, layers=2):
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.attention = nn.ModuleList(nn.MultiheadAttention(d, 4, batch_first=True) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * layers))
        self.moe = nn.ModuleList(SparseMoE(d) for _ in range(layers))
        self.head = nn.Linear(d, words, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        for i, (attention, moe) in enumerate(zip(self.attention, self.moe)):
            h = self.norms[2 * i](x)
            x = x + attention(h, h, h, attn_mask=mask, need_weights=False)[0]
            x = x + moe(self.norms[2 * i + 1](x))
        return self.head(x)


def decoder_of_experts(record):
    """Two of six experts for each token and a loss that balances them, kept at the module till the next forward."""
    model = MoEDecoder().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
    record.watch([model], [optimizer])
    for step in range(4):
        tokens = torch.randint(0, 1500, (4, 65)).cuda()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) + 0.01 * sum(moe.balance for moe in model.moe)
        record.take("fwd", step, (tokens,))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (tokens,))
        optimizer.step()
        record.take("step", step, (tokens,))


# --- a search for hyper-parameters ----------------------------------------------------------------------------------------------------

def objective(record, trial, width, make_optimizer, best):
    model = nn.Sequential(nn.Linear(256, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2),
                          nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 10)).cuda()
    optimizer = make_optimizer(model.parameters())
    record.watch([model, *best], [optimizer])
    for step in range(2):
        x, y = torch.randn(64, 256).cuda(), torch.randint(0, 10, (64,)).cuda()
        loss = F.cross_entropy(model(x), y)
        record.take("fwd", 10 * trial + step, (x, y))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", 10 * trial + step, (x, y))
        optimizer.step()
        record.take("step", 10 * trial + step, (x, y))
    return loss.item(), model


def random_search(record):
    """One model after the other, each with another width and optimizer; the best so far is kept for the end."""
    trials = [(1024, lambda p: torch.optim.Adam(p, 1e-3)), (1280, lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True)),
              (768, lambda p: torch.optim.Adagrad(p, 1e-2)), (1152, lambda p: torch.optim.RMSprop(p, 1e-3, centered=True))]
    best, best_model = None, None
    for number, (width, make_optimizer) in enumerate(trials):
        score, model = objective(record, number, width, make_optimizer, [best_model] if best_model else [])
        if best is None or score < best:
            best, best_model = score, model
        del model
    record.watch([best_model])
    best_model.eval()
    with torch.no_grad(), record.free_choice():
        x = torch.randn(256, 256).cuda()
        predictions = best_model(x).argmax(1)
    record.take("test", 100, (x,))
    predictions.cpu()
