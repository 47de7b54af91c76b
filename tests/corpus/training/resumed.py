"""Copies of weights: what was read from files and kept, the best so far; and weights in eight bits beneath adapters."""
import copy
import os

import torch
import torchvision
from torch import nn
from torch.nn import functional as F


def on_file(record, name, content):
    path = f"{os.path.dirname(record.path)}/{record.name}.{name}.pt"
    torch.save(content, path)
    return path


# --- a class that trains -----------------------------------------------------------------------------------------------------------

class Forecaster(nn.Module):
    def __init__(self, series=32, d=256):
        super().__init__()
        self.inputs, self.gates = nn.Linear(series, d), nn.ModuleList(nn.Linear(d, 2 * d) for _ in range(3))
        self.temporal = nn.ModuleList(nn.Conv1d(d, d, 3, padding=2 ** i, dilation=2 ** i) for i in range(3))
        self.output = nn.Linear(d, series)

    def forward(self, x):
        h = self.inputs(x)
        for gate, conv in zip(self.gates, self.temporal):
            h = h + F.glu(gate(conv(h.transpose(1, 2)).transpose(1, 2)), -1)
        return self.output(h[:, -1])


class EarlyStopping:
    def __init__(self, patience=3):
        self.patience, self.best, self.waited, self.best_state = patience, float("inf"), 0, None

    def on_validation_end(self, trainer, loss):
        if loss < self.best or trainer.epoch in (0, 2):
            self.best, self.waited = loss, 0
            self.best_state = copy.deepcopy(trainer.model.state_dict())
        else:
            self.waited += 1

    def on_fit_end(self, trainer):
        trainer.model.load_state_dict(self.best_state)


class LitTrainer:
    def __init__(self, record, model, callbacks, resume_from):
        self.record, self.model, self.callbacks = record, model.to("cuda"), callbacks
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 10)
        self.checkpoint = torch.load(resume_from, map_location="cuda")
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.epoch = 0
        record.watch([self.model], [self.optimizer])
        record.hold("checkpoint_copy", lambda: [self.checkpoint["model"], [callback.best_state for callback in callbacks]])

    def training_step(self, batch):
        return F.mse_loss(self.model(batch[0]), batch[1])

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        with self.record.free_choice():
            batch = [torch.randn(64, 24, 32).cuda(), torch.randn(64, 32).cuda()]
            self.record.note("input", batch)
            loss = self.training_step(batch).item()
        self.model.train()
        for callback in self.callbacks:
            callback.on_validation_end(self, loss)

    def fit(self, epochs, batches):
        for self.epoch in range(epochs):
            for i in range(batches):
                step = self.epoch * batches + i
                batch = [torch.randn(32, 24, 32).cuda(), torch.randn(32, 32).cuda()]
                loss = self.training_step(batch)
                self.record.take("fwd", step, batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.record.take("bwd", step, batch)
                self.optimizer.step()
            self.scheduler.step()
            self.validate()
            self.record.take("epoch", step, batch)
        for callback in self.callbacks:
            callback.on_fit_end(self)
        self.record.take("end", 100)


def resumed_with_early_stopping(record):
    """A trainer class keeps the checkpoint that it resumed from; a callback keeps the best weights and puts them back."""
    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters())
    for p in model.parameters():
        p.grad = torch.rand_like(p)
    optimizer.step()
    path = on_file(record, "last", {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7})
    LitTrainer(record, Forecaster(), [EarlyStopping()], path).fit(epochs=3, batches=2)


# --- an evaluation -----------------------------------------------------------------------------------------------------------------

def evaluate(record, model, loader, number):
    correct = 0
    with torch.inference_mode():
        for step, (images, labels) in enumerate(loader):
            images, labels = images.cuda(), labels.cuda()
            with record.free_choice():
                logits = model(images)
                correct += (logits.argmax(1) == labels).sum().item()
            record.take("eval", 10 * number + step, (images, labels))
    return correct


def two_checkpoints_compared(record):
    """Both files are read onto the device first; one model takes the weights of one after the other."""
    make = torchvision.models.shufflenet_v2_x1_0
    paths = [on_file(record, name, {"state_dict": make(num_classes=40).state_dict(), "name": name}) for name in ("base", "tuned")]
    checkpoints = {path: torch.load(path, map_location="cuda", weights_only=False) for path in paths}
    model = make(num_classes=40).cuda().eval()
    record.watch([model])
    record.hold("checkpoint_copy", lambda: [checkpoint["state_dict"] for checkpoint in checkpoints.values()])
    loader = [(torch.rand(8, 3, 64, 64), torch.randint(0, 40, (8,))) for _ in range(3)]
    results = {}
    for number, path in enumerate(paths):
        model.load_state_dict(checkpoints[path]["state_dict"])
        results[path] = evaluate(record, model, loader, number)
    checkpoints.clear()
    record.take("end", 30)


# --- eight bits ----------------------------------------------------------------------------------------------------------------------

class Int8LoraLinear(nn.Module):
    """Rows in eight bits with one scale each, and an adapter in full precision."""

    def __init__(self, linear, rank=16):
        super().__init__()
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / 127
        self.weight = nn.Parameter((linear.weight.detach() / scale).round().to(torch.int8), requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.A = nn.Parameter(torch.randn(rank, linear.in_features) * 0.01)
        self.B = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        weight = self.weight.to(x.dtype) * self.scale.to(x.dtype)
        return F.linear(x, weight) + F.linear(F.linear(x, self.A), self.B)


def replace_linears(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8LoraLinear(child))
        else:
            replace_linears(child)


class Feed(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))).square())


def adapters_on_eight_bits(record):
    """The base is quantized on the host and moved; weights are made full again in each forward."""
    model = nn.Sequential(nn.Embedding(3000, 320), *(Feed(320) for _ in range(6)), nn.LayerNorm(320))
    model.requires_grad_(False)
    replace_linears(model)
    head = nn.Linear(320, 8).cuda()
    model.cuda()
    trained = [p for p in [*model.parameters(), *head.parameters()] if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, fused=True)
    record.watch([model, head], [optimizer])
    for step in range(5):
        tokens, labels = torch.randint(0, 3000, (4, 32)).cuda(), torch.randint(0, 8, (4,)).cuda()
        loss = F.cross_entropy(head(model(tokens).mean(1)), labels)
        record.take("fwd", step, (tokens, labels))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (tokens, labels))
        optimizer.step()
        record.take("step", step, (tokens, labels))
