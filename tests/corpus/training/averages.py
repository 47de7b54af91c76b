"""Copies of weights and of optimizer state: averaged, put aside, read from files."""
import copy
import io
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


def conv_block(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Tagger(nn.Module):
    """Small pictures, many labels."""

    def __init__(self, width=48, labels=200):
        super().__init__()
        self.stem = conv_block(3, width)
        self.body = nn.Sequential(conv_block(width, 2 * width, 2), conv_block(2 * width, 4 * width, 2),
                                  conv_block(4 * width, 4 * width))
        self.classifier = nn.Linear(4 * width, labels)

    def forward(self, images):
        return self.classifier(self.body(self.stem(images)).mean((2, 3)))


def pictures(n=12, size=24):
    return torch.rand(n, 3, size, size).to("cuda"), torch.randint(0, 2, (n, 200)).float().to("cuda")


def criterion(logits, labels):
    return F.binary_cross_entropy_with_logits(logits, labels)


def train_one(record, model, optimizer, step, batch=None, marks=("fwd", "bwd")):
    images, labels = batch or pictures()
    model.train()
    loss = criterion(model(images), labels)
    record.take(marks[0], step, (images, labels))
    optimizer.zero_grad()
    loss.backward()
    record.take(marks[1], step, (images, labels))
    optimizer.step()


# --- averages ----------------------------------------------------------------------------------------------------------

class ExponentialMovingAverage:
    """The helper that half of all repositories carry along: the trained weights wait in `collected` while the averaged
    ones are evaluated."""

    def __init__(self, parameters, decay):
        self.decay, self.num_updates = decay, 0
        self.shadow_params = [p.clone().detach() for p in parameters if p.requires_grad]
        self.collected_params = []

    def update(self, parameters):
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        with torch.no_grad():
            for s, p in zip(self.shadow_params, [p for p in parameters if p.requires_grad]):
                s.sub_((1.0 - decay) * (s - p))

    def copy_to(self, parameters):
        for s, p in zip(self.shadow_params, [p for p in parameters if p.requires_grad]):
            p.data.copy_(s.data)

    def store(self, parameters):
        self.collected_params = [p.clone().detach() for p in parameters]

    def restore(self, parameters):
        for c, p in zip(self.collected_params, parameters):
            p.data.copy_(c.data)
        self.collected_params = []


def average_in_place_of_weights(record):
    """Evaluates the averaged weights every second step, within the model itself."""
    model = Tagger().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    ema = ExponentialMovingAverage(model.parameters(), decay=0.995)
    record.watch([model], [optimizer])
    record.hold("checkpoint_copy", lambda: [ema.shadow_params, ema.collected_params])
    validation = pictures(20)
    record.hold("input", lambda: validation)
    for step in range(4):
        train_one(record, model, optimizer, step)
        ema.update(model.parameters())
        if step % 2:
            ema.store(model.parameters())
            ema.copy_to(model.parameters())
            model.eval()
            with torch.no_grad(), record.free_choice():
                logits = model(validation[0])
                record.take("eval", step)
            del logits
            ema.restore(model.parameters())
        record.take("end", step)


def averaged_state_dicts(record):
    """Stochastic weight averaging over what state_dict() gives; at the end a model is made of it."""
    model = Tagger(width=56).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    record.watch([model], [optimizer])
    swa_state, swa_n = {}, 0
    record.hold("checkpoint_copy", lambda: swa_state)
    for epoch in range(5):
        train_one(record, model, optimizer, epoch)
        if epoch >= 1:
            for key, value in model.state_dict().items():
                if not value.is_floating_point():
                    continue
                if key not in swa_state:
                    swa_state[key] = value.detach().clone()
                else:
                    swa_state[key] += (value - swa_state[key]) / (swa_n + 1)
            swa_n += 1
        record.take("epoch", epoch)
    final = Tagger(width=56).to("cuda")
    final.load_state_dict(swa_state, strict=False)
    record.watch([model, final], [optimizer])
    with torch.no_grad(), record.free_choice():
        images, labels = pictures()
        final(images)  # batch norm's statistics
        record.take("final", 5, (images, labels))


# --- files ---------------------------------------------------------------------------------------------------------------

class Trainer:
    """Writes a checkpoint, and goes back to it where the loss has gone wrong."""

    def __init__(self, model, folder):
        self.model, self.folder = model, folder
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.checkpoint = None

    @property
    def path(self):
        return os.path.join(self.folder, "last.pt")

    def save(self, epoch):
        torch.save({"epoch": epoch, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "scheduler": self.scheduler.state_dict()}, self.path)

    def load(self):
        self.checkpoint = torch.load(self.path, map_location="cuda:0")
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.scheduler.load_state_dict(self.checkpoint["scheduler"])
        return self.checkpoint["epoch"]


def back_after_divergence(record):
    """The file is read in mid-training; an attribute keeps what was read, weights and all."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Tagger().cuda(), folder)
        record.watch([trainer.model], [trainer.optimizer])
        record.hold("checkpoint_copy", lambda: trainer.checkpoint["model"] if trainer.checkpoint else [])
        for epoch in range(5):
            train_one(record, trainer.model, trainer.optimizer, epoch)
            trainer.scheduler.step()
            if epoch == 1:
                trainer.save(epoch)
            if epoch == 2:
                trainer.load()
            record.take("epoch", epoch)


def resumed_and_dropped(record):
    """The usual start from a file: everything read is handed on, and the variable ends with its function."""
    buffer = io.BytesIO()
    first = Tagger(width=40)
    torch.save({"state": first.state_dict(), "args": {"width": 40}}, buffer)
    del first
    buffer.seek(0)
    record.hold("checkpoint_copy", lambda: loaded)
    loaded = {}

    def resume():
        ckpt = torch.load(buffer, map_location=torch.device("cuda"))
        net = Tagger(**ckpt["args"])
        net.cuda()
        record.watch([net])
        loaded.update(ckpt["state"])
        record.take("read", 0)
        net.load_state_dict(ckpt["state"])
        return net

    model = resume()
    loaded.clear()
    optimizer = torch.optim.AdamW(model.parameters())
    record.watch([model], [optimizer])
    for step in range(1, 5):
        train_one(record, model, optimizer, step)
        record.take("end", step)


# --- two bests ---------------------------------------------------------------------------------------------------------

def bests_by_metric(record):
    """One snapshot for each metric that got better, with the optimizer's state, on the device."""
    model = Tagger().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    record.watch([model], [optimizer])
    best = {}
    record.hold("checkpoint_copy", lambda: [[kept["weights"], list(kept["optimizer"]["state"].values())] for kept in best.values()])
    schedule = {"loss": [3.0, 2.0, 2.5, 2.4, 2.6], "f1": [0.2, 0.1, 0.3, 0.2, 0.4]}
    for epoch in range(5):
        train_one(record, model, optimizer, epoch)
        for metric, sign in (("loss", -1), ("f1", 1)):
            score = sign * schedule[metric][epoch]
            if metric not in best or score > best[metric]["score"]:
                best[metric] = {"score": score, "epoch": epoch, "weights": copy.deepcopy(model.state_dict()),
                                "optimizer": copy.deepcopy(optimizer.state_dict())}
        record.take("epoch", epoch)
