"""Checkpoints that are read and kept, and copies of weights made on the way."""
import copy
import os
import pathlib
from collections import OrderedDict

import torch
from torch import nn, optim
from torch.nn.functional import mse_loss

WIDTH = 320


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(4)])
        self.norm = nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return self.head(self.norm(x))


def loader(batches, rows=40):
    for _ in range(batches):
        yield torch.randn(rows, WIDTH).cuda(), torch.randn(rows, 16).cuda()


def saved_checkpoint(path):
    """As an earlier job left it: weights, Adam's state, epoch. All on the CPU."""
    model = Encoder()
    opt = optim.Adam(model.parameters())
    mse_loss(model(torch.randn(4, WIDTH)), torch.zeros(4, 16)).backward()
    opt.step()
    torch.save({"epoch": 7, "state_dict": model.state_dict(), "optimizer": opt.state_dict()}, path)


def resume_and_keep(record):
    """`checkpoint` stays a variable of the function to its end."""
    file = f"{record.path}.pt"
    saved_checkpoint(file)
    checkpoint = torch.load(file, map_location="cuda:0")
    os.remove(file)
    model = Encoder()
    model.load_state_dict(checkpoint["state_dict"])
    model.cuda()
    optimizer = optim.Adam(model.parameters())
    optimizer.load_state_dict(checkpoint["optimizer"])
    start_epoch = checkpoint["epoch"] + 1
    record.watch([model], [optimizer])
    record.hold("checkpoint_copy", lambda: [checkpoint["state_dict"], list(checkpoint["optimizer"]["state"].values())])
    for epoch in range(start_epoch, start_epoch + 2):
        for i, batch in enumerate(loader(2)):
            x, y = batch
            loss = mse_loss(model(x), y)
            record.take("f", 2 * epoch + i, batch)
            optimizer.zero_grad()
            loss.backward()
            record.take("b", 2 * epoch + i, batch)
            optimizer.step()
            record.take("s", 2 * epoch + i, batch)


class EarlyStopping:
    def __init__(self, patience=3):
        self.patience, self.best_score, self.best_state, self.bad = patience, None, None, 0

    def __call__(self, score, model):
        if self.best_score is None or score > self.best_score:
            self.best_score, self.bad = score, 0
            self.best_state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def early_stopping_again(record):
    net = Encoder().cuda()
    opt = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    stopper = EarlyStopping()
    record.watch([net], [opt])
    record.hold("checkpoint_copy", lambda: stopper.best_state or {})
    step = 0
    for score in (0.1, 0.4, 0.3):
        net.train()
        for x, y in loader(2):
            out = net(x)
            loss = mse_loss(out, y)
            record.take("fwd", step, (x, y))
            loss.backward()
            record.take("bwd", step, (x, y))
            opt.step()
            opt.zero_grad()
            record.take("step", step, (x, y))
            step += 1
        net.eval()
        with torch.no_grad(), record.free_choice():
            for x, y in loader(1):
                mse_loss(net(x), y)
        if stopper(score, net):
            break
        record.take("epoch_end", step - 1, (x, y))


class Config:
    def __init__(self, **values):
        vars(self).update(values)


def safetensors_init(record):
    """Pretrained weights straight to the card; the head is new, and the config keeps what was loaded."""
    from safetensors.torch import load_file, save_file

    path = pathlib.Path(f"{record.path}.safetensors")
    save_file({k: v.contiguous() for k, v in Encoder().state_dict().items() if not k.startswith("head")}, path)
    cfg = Config(lr=1e-3, pretrained=load_file(path, device="cuda"))
    path.unlink()
    model = Encoder().to("cuda")
    print(model.load_state_dict(cfg.pretrained, strict=False))
    for p in model.layers[:2].parameters():
        p.requires_grad = False
    optimizer = optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=cfg.lr)
    record.watch([model], [optimizer])
    record.hold("checkpoint_copy", lambda: cfg.pretrained)
    for i, (x, y) in enumerate(loader(4)):
        pred = model(x)
        loss = mse_loss(pred, y)
        record.take("fwd", i, (x, y))
        loss.backward()
        record.take("bwd", i, (x, y))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        record.take("step", i, (x, y))


def model_soup(record):
    """A list of the weights of the last epochs, averaged at the end."""
    model = Encoder().cuda()
    opt = optim.RMSprop(model.parameters())
    ingredients = []
    record.watch([model], [opt])
    record.hold("checkpoint_copy", lambda: ingredients)
    step = 0
    for epoch in range(4):
        for x, y in loader(2):
            opt.zero_grad()
            mse_loss(model(x), y).backward()
            record.take("bwd", step, (x, y))
            opt.step()
            record.take("step", step, (x, y))
            step += 1
        ingredients.append(OrderedDict((k, v.detach().clone()) for k, v in model.state_dict().items()))
        ingredients = ingredients[-3:]
    averaged = {k: torch.stack([i[k].float() for i in ingredients]).mean(0) for k in ingredients[0]}
    record.note("checkpoint_copy", averaged.values())
    model.load_state_dict({k: v.to(model.state_dict()[k].dtype) for k, v in averaged.items()})
    record.take("soup", step - 1, (x, y))


class EMA:
    """The class that everyone copies."""

    def __init__(self, model, decay=0.999):
        self.model, self.decay, self.shadow, self.backup = model, decay, {}, {}

    def register(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = param.data.clone()

    def update(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = ((1.0 - self.decay) * param.data + self.decay * self.shadow[name]).clone()

    def apply_shadow(self):
        for name, param in self.model.named_parameters():
            self.backup[name] = param.data
            param.data = self.shadow[name]

    def restore(self):
        for name, param in self.model.named_parameters():
            param.data = self.backup[name]
        self.backup = {}


def ema_shadow_again(record):
    model = Encoder().cuda()
    opt = optim.AdamW(model.parameters(), 1e-3)
    ema = EMA(model)
    ema.register()
    record.watch([model], [opt])
    record.hold("checkpoint_copy", lambda: [ema.shadow, ema.backup])
    for i, (x, y) in enumerate(loader(5)):
        loss = mse_loss(model(x), y)
        record.take("fwd", i, (x, y))
        loss.backward()
        record.take("bwd", i, (x, y))
        opt.step()
        ema.update()
        opt.zero_grad()
        record.take("ema", i, (x, y))


def back_to_best(record):
    """After three steps the best weights and state so far are read again, into the same model and a new optimizer."""
    path = f"{record.path}.best"
    model = Encoder().to("cuda")

    def new_optimizer():
        return optim.Adam(model.parameters(), lr=1e-3)

    opt = new_optimizer()
    record.watch([model], [opt])
    for i, (x, y) in enumerate(loader(6)):
        if i == 3:
            torch.save([model.state_dict(), opt.state_dict()], path)
            weights, state = torch.load(path)
            model.load_state_dict(weights)
            opt = new_optimizer()
            opt.load_state_dict(state)
            record.watch([model], [opt])
            record.note("checkpoint_copy", weights.values())
            record.take("reloaded", i - 1, (x, y))
            del weights, state
            os.unlink(path)
        loss = mse_loss(model(x), y)
        record.take("fwd", i, (x, y))
        opt.zero_grad()
        loss.backward()
        record.take("bwd", i, (x, y))
        opt.step()
        record.take("step", i, (x, y))
