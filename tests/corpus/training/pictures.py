"""Pictures: classes, boxes, masks, pairs with texts, and what is learned without labels."""
import copy
import math
import os

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

device = "cuda"


# --- classification -----------------------------------------------------------------------------------------------------------

def mixup(x, y, classes, alpha=0.2):
    lam = float(torch.distributions.Beta(alpha, alpha).sample())
    order = torch.randperm(x.shape[0]).to(x.device)
    one_hot = F.one_hot(y, classes).float()
    return x * lam + x[order] * (1 - lam), one_hot * lam + one_hot[order] * (1 - lam)


def efficientnet_mixup(record):
    """Mixed pictures in channels_last, bfloat16 autocast, an averaged model beside; SGD with Nesterov's momentum."""
    model = torchvision.models.efficientnet_b0(num_classes=100).to(device, memory_format=torch.channels_last)
    ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    record.watch([model, ema], [optimizer])
    for step in range(5):
        images = torch.rand(8, 3, 96, 96).to(device, memory_format=torch.channels_last)
        labels = torch.randint(100, (8,)).to(device)
        mixed, targets = mixup(images, labels, 100)
        batch = (images, labels, mixed, targets)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(mixed), targets)
        record.take("fwd", step, batch)
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        ema.update_parameters(model)
        record.take("step", step, batch)


# --- detection ----------------------------------------------------------------------------------------------------------------

def giou(found, wanted):
    """Of boxes given as distances from their place to left, top, right and bottom."""
    area = lambda b: (b[..., 0] + b[..., 2]) * (b[..., 1] + b[..., 3])
    both, around = area(torch.min(found, wanted)), area(torch.max(found, wanted))
    union = area(found) + area(wanted) - both
    return both / union.clamp(min=1e-6) - (around - union) / around.clamp(min=1e-6)


class Pyramid(nn.Module):
    """A residual trunk, a feature pyramid, and heads that are shared by its levels."""

    def __init__(self, classes=20, width=128):
        super().__init__()
        net = torchvision.models.resnet18(weights=None)
        self.stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1)
        self.stages = nn.ModuleList([net.layer2, net.layer3, net.layer4])
        self.fpn = torchvision.ops.FeaturePyramidNetwork([128, 256, 512], width)
        tower = lambda: nn.Sequential(*(layer for _ in range(2) for layer in (nn.Conv2d(width, width, 3, padding=1),
                                                                              nn.GroupNorm(16, width), nn.ReLU(inplace=True))))
        self.cls_tower, self.box_tower = tower(), tower()
        self.cls, self.box, self.center = (nn.Conv2d(width, n, 3, padding=1) for n in (classes, 4, 1))

    def forward(self, x):
        x, levels = self.stem(x), {}
        for i, stage in enumerate(self.stages):
            levels[str(i)] = x = stage(x)
        found = []
        for level in self.fpn(levels).values():
            c, b = self.cls_tower(level), self.box_tower(level)
            parts = self.cls(c), F.softplus(self.box(b)), self.center(b)
            found.append(torch.cat(parts, 1).flatten(2).transpose(1, 2))
        return torch.cat(found, 1)


def detector_three_losses(record):
    """Classes by focal loss, boxes by GIoU, centers by cross entropy; targets are dense and come from the loader."""
    model, classes = Pyramid().to(device), 20
    trunk = [p for n, p in model.named_parameters() if n.startswith(("stem", "stages"))]
    heads = [p for n, p in model.named_parameters() if not n.startswith(("stem", "stages"))]
    optimizer = torch.optim.AdamW([{"params": trunk, "lr": 1e-5}, {"params": heads}], lr=1e-4)
    record.watch([model], [optimizer])
    places = sum((128 // s) ** 2 for s in (8, 16, 32))
    for step in range(4):
        images = torch.rand(4, 3, 128, 128).to(device)
        targets = {"cls": (torch.rand(4, places, classes) < 0.02).float(), "box": torch.rand(4, places, 4) * 30 + 1,
                   "center": torch.rand(4, places), "positive": (torch.rand(4, places) < 0.1).float()}
        targets = {k: v.to(device) for k, v in targets.items()}
        out = model(images)
        logits, boxes, center = out.split((classes, 4, 1), -1)
        positive = targets["positive"]
        cls_loss = torchvision.ops.sigmoid_focal_loss(logits, targets["cls"], reduction="sum") / positive.sum()
        box_loss = ((1 - giou(boxes, targets["box"])) * positive).sum() / positive.sum()
        center_loss = F.binary_cross_entropy_with_logits(center.squeeze(-1), targets["center"], weight=positive)
        loss = cls_loss + 2.0 * box_loss + center_loss
        losses = {"cls": cls_loss.detach(), "box": box_loss.detach(), "center": center_loss.detach()}
        batch = (images, targets)
        record.take("fwd", step, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        record.take("bwd", step, batch)
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        {k: v.item() for k, v in losses.items()}
        record.take("step", step, batch)


# --- segmentation -------------------------------------------------------------------------------------------------------------

def deeplab_auxiliary_fp16(record):
    """torchvision's DeepLab with its second head, float16 and a scaler, a polynomial schedule."""
    model = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=12, aux_loss=True)
    model = model.to(device).train()
    groups = [{"params": model.backbone.parameters()}, {"params": model.classifier.parameters()},
              {"params": model.aux_classifier.parameters(), "lr": 0.1}]
    optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=5, power=0.9)
    scaler = torch.amp.GradScaler()
    record.watch([model], [optimizer])
    for step in range(5):
        image, target = torch.rand(4, 3, 96, 96).to(device), torch.randint(12, (4, 96, 96)).to(device)
        with torch.amp.autocast("cuda"):
            out = model(image)
            losses = {name: F.cross_entropy(x, target, ignore_index=255) for name, x in out.items()}
            loss = losses["out"] + 0.5 * losses["aux"]
        record.take("fwd", step, (image, target))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        record.library_tensors = [scaler._scale, scaler._growth_tracker]
        record.take("bwd", step, (image, target))
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        record.take("step", step, (image, target))


# --- pairs --------------------------------------------------------------------------------------------------------------------

def clip_pairs(record):
    """transformers' CLIP: every picture against every text of the batch."""
    from transformers import CLIPConfig, CLIPModel

    model = CLIPModel(CLIPConfig(
        text_config=dict(vocab_size=3000, hidden_size=192, intermediate_size=768, num_hidden_layers=3, num_attention_heads=6,
                         max_position_embeddings=32, projection_dim=128),
        vision_config=dict(hidden_size=192, intermediate_size=768, num_hidden_layers=3, num_attention_heads=6, image_size=64,
                           patch_size=8, projection_dim=128), projection_dim=128)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.2)
    record.watch([model], [optimizer])
    for step in range(4):
        batch = {"input_ids": torch.randint(1, 3000, (16, 32)), "attention_mask": torch.ones(16, 32, dtype=torch.long),
                 "pixel_values": torch.rand(16, 3, 64, 64)}
        batch = {k: v.to(device) for k, v in batch.items()}
        out = model(**batch)
        labels = torch.arange(16, device=device)
        loss = (F.cross_entropy(out.logits_per_image, labels) + F.cross_entropy(out.logits_per_text, labels)) / 2
        record.take("fwd", step, (batch, labels))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (batch, labels))
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(100))
        record.take("step", step, (batch, labels))


class ResNetTower(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.net = torchvision.models.resnet18(weights=None, num_classes=512)
        self.head = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, dim))

    def forward(self, x):
        return F.normalize(self.head(self.net(x)), dim=1)


class LARS(torch.optim.Optimizer):
    def __init__(self, params, lr=0.3, momentum=0.9, weight_decay=1e-6, eta=1e-3):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, eta=eta))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                d = p.grad
                if d is None:
                    continue
                if p.ndim > 1:
                    d = d.add(p, alpha=group["weight_decay"])
                    p_norm, d_norm = p.norm(), d.norm()
                    one = torch.ones_like(p_norm)
                    q = torch.where(p_norm > 0, torch.where(d_norm > 0, group["eta"] * p_norm / d_norm, one), one)
                    d = d.mul(q)
                state = self.state[p]
                if "mu" not in state:
                    state["mu"] = torch.zeros_like(p)
                mu = state["mu"]
                mu.mul_(group["momentum"]).add_(d)
                p.add_(mu, alpha=-group["lr"])


def augment(images):
    """On the device: mirrored, shifted, brighter or darker, with noise."""
    images = images.flip(-1) if torch.rand(()) < 0.5 else images
    images = torch.roll(images, tuple(torch.randint(-8, 8, (2,)).tolist()), (-2, -1))
    images = images * (0.6 + 0.8 * torch.rand(len(images), 1, 1, 1)).to(images.device)
    return (images + 0.05 * torch.randn_like(images)).clamp(0, 1)


def simclr_lars(record):
    """Two views of each picture are made on the device; LARS by hand."""
    model = ResNetTower().to(device)
    optimizer = LARS(model.parameters())
    record.watch([model], [optimizer])
    eye = torch.eye(64, dtype=torch.bool, device=device)
    record.hold("open", lambda: [eye])
    for step in range(4):
        images = torch.rand(32, 3, 64, 64).to(device)
        first, second = augment(images), augment(images)
        views = torch.cat([first, second])
        z = model(views)
        similar = (z @ z.t() / 0.1).masked_fill(eye, -1e4)
        labels = torch.arange(64, device=device).roll(32)
        loss = F.cross_entropy(similar, labels)
        batch = (images, first, second, views, labels)
        record.take("fwd", step, batch)
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        record.take("step", step, batch)


# --- a teacher that is an average ---------------------------------------------------------------------------------------------

class SmallViT(nn.Module):
    def __init__(self, dim=192, depth=4, patch=8, size=64, out=1024):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 6, 4 * dim, activation="gelu", batch_first=True, norm_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(dim, 512), nn.GELU(), nn.Linear(512, out))

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
        return self.head(self.layers(x + self.pos[:, :x.shape[1]])[:, 0])


def dino_multi_crop(record):
    """The student sees large and small crops, its average only the large ones; a center of the teacher's outputs is kept."""
    student = SmallViT().to(device)
    teacher = copy.deepcopy(student)
    for p in teacher.parameters():
        p.requires_grad = False
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4, weight_decay=0.04)
    center = torch.zeros(1, 1024, device=device)
    record.watch([student, teacher], [optimizer])
    record.hold("open", lambda: [center])
    for step in range(4):
        crops = [torch.rand(8, 3, 64, 64) for _ in range(2)] + [torch.rand(8, 3, 32, 32) for _ in range(4)]
        crops = [crop.to(device, non_blocking=True) for crop in crops]
        large, small = torch.cat(crops[:2]), torch.cat(crops[2:])
        batch = (crops, large, small)
        with torch.no_grad(), record.free_choice():
            teacher_out = teacher(large)
            probs = F.softmax((teacher_out - center) / 0.04, -1).chunk(2)
        student_out = [student(large), student(small)]
        views = [*student_out[0].chunk(2), *student_out[1].chunk(4)]
        terms = [-(q * F.log_softmax(v / 0.1, -1)).sum(-1).mean() for i, q in enumerate(probs) for j, v in enumerate(views) if i != j]
        loss = torch.stack(terms).mean()
        record.take("fwd", step, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), 3.0)
        record.take("bwd", step, batch)
        optimizer.step()
        with torch.no_grad():
            for ps, pt in zip(student.parameters(), teacher.parameters()):
                pt.data.mul_(0.996).add_((1 - 0.996) * ps.detach().data)
            center = center * 0.9 + teacher_out.mean(0, keepdim=True) * 0.1
        record.take("step", step, batch)


# --- hidden parts -------------------------------------------------------------------------------------------------------------

def vit_mae_pretraining(record):
    """transformers' masked autoencoder, three quarters of the patches hidden; accelerate prepares it."""
    from accelerate import Accelerator
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    accelerator = Accelerator(mixed_precision="no")
    model = ViTMAEForPreTraining(ViTMAEConfig(
        hidden_size=192, num_hidden_layers=4, num_attention_heads=6, intermediate_size=768, image_size=96, patch_size=8,
        decoder_hidden_size=128, decoder_num_hidden_layers=2, decoder_num_attention_heads=4, decoder_intermediate_size=512,
        norm_pix_loss=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, betas=(0.9, 0.95))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(40, 3, 96, 96)), batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    record.watch([model], [optimizer.optimizer])
    for step, (pixels,) in enumerate(loader):
        out = model(pixel_values=pixels)
        record.take("fwd", step, (pixels,))
        accelerator.backward(out.loss)
        record.take("bwd", step, (pixels,))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (pixels,))


def lightning_denoiser(record):
    """A convolutional autoencoder as a LightningModule: noise is added in training_step, metrics are logged."""
    import lightning.pytorch as lightning

    class Denoise(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            down = [nn.Conv2d(i, o, 3, 2, 1) for i, o in ((1, 32), (32, 64), (64, 128), (128, 256))]
            up = [nn.ConvTranspose2d(i, o, 4, 2, 1) for i, o in ((256, 128), (128, 64), (64, 32), (32, 1))]
            self.encoder = nn.Sequential(*(layer for conv in down for layer in (conv, nn.BatchNorm2d(conv.out_channels), nn.SiLU())))
            self.decoder = nn.Sequential(*(layer for conv in up[:-1] for layer in (conv, nn.BatchNorm2d(conv.out_channels), nn.SiLU())),
                                         up[-1], nn.Sigmoid())

        def training_step(self, batch, index):
            clean, = batch
            noisy = clean + 0.3 * torch.randn_like(clean)
            loss = F.mse_loss(self.decoder(self.encoder(noisy)), clean)
            self.log("train_loss", loss, on_step=True, on_epoch=True)
            self.batch = (clean, noisy)
            record.watch([self], [self.optimizers().optimizer])
            record.take("fwd", self.global_step, self.batch)
            return loss

        def on_after_backward(self):
            record.take("bwd", self.global_step, self.batch)

        def on_train_batch_end(self, outputs, batch, index):
            record.take("step", self.global_step - 1, self.batch)

        def configure_optimizers(self):
            return torch.optim.Adamax(self.parameters(), lr=2e-3)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(160, 1, 64, 64)), batch_size=32)
    trainer = lightning.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False,
                                default_root_dir=os.path.dirname(record.path) + "/lightning_denoiser")
    trainer.fit(Denoise(), loader)
