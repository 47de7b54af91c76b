"""Training scripts for test_advice.py, each with a way to follow what the report should advise:

    scripts.py NAME 0|1

1 follows the advice. Prints {"peak": torch.cuda.max_memory_allocated(), ...}."""
import io
import json
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = 4


def block(width):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Layers(nn.Module):
    def __init__(self, count, width, follow):
        super().__init__()
        self.layers = nn.ModuleList(block(width) for _ in range(count))
        self.head = nn.Linear(width, 10)
        self.follow = follow

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.follow else layer(x)
        return self.head(x)


def train(model, optimizer, rows, width, set_to_none=True, steps=STEPS):
    for _ in range(steps):
        data = torch.randn(rows, width, device="cuda")
        loss = model(data).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
        del data, loss


def checkpoints(follow):
    model = Layers(6, 256, follow).cuda()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), 8192, 256)


def zero_grad(follow):
    """Its peak is where forward ends: the activations beside the gradients of the step before."""
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    train(model, torch.optim.AdamW(model.parameters()), 16384, 2048, set_to_none=follow)


def zero_grad_late(follow):
    """The gradients are dropped between forward and backward; the peak is a metric of forward's output."""
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        if follow:
            optimizer.zero_grad()
        out = model(torch.randn(8192, 2048, device="cuda"))
        with torch.no_grad():
            out.repeat(8, 1).max()
        if not follow:
            optimizer.zero_grad()
        out.sum().backward()
        optimizer.step()
        del out


class Attention(nn.Module):
    """Its matrices of attention are far larger than what it passes on."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(width, heads, batch_first=True), nn.LayerNorm(width)
        self.mlp = nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        return x + self.mlp(self.attention(y, y, y)[0])


class Narrowing(nn.Module):
    """The same of a wide layer, and a mask of dropout and a norm's statistics come last."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Sequential(nn.Linear(64, 4096), nn.GELU(), nn.Linear(4096, 64))
        self.drop, self.norm = nn.Dropout(), nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(self.drop(self.wide(x)))


class Checkpointed(nn.ModuleList):
    def __init__(self, layers, follow):
        super().__init__(layers)
        self.follow = follow

    def forward(self, x):
        for layer in self:
            x = checkpoint(layer, x, use_reentrant=False) if self.follow else layer(x)
        return x


def train_on(model, *shape):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        loss = model(torch.zeros(*shape, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def attention(follow):
    train_on(Checkpointed([Attention(256, 8) for _ in range(5)], follow).cuda(), 2, 768, 256)


def narrowing(follow):
    train_on(Checkpointed([Narrowing() for _ in range(5)], follow).cuda(), 2048, 64)


def zero_grad_autocast(follow):
    """An optimizer without state, so that nothing shows its steps; weights in half precision, which no checkpoint would save."""
    model = nn.Sequential(*[block(512) for _ in range(6)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS + 2):
        if follow:
            optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(torch.zeros(16, 512, device="cuda")).float().mean()
        if not follow:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def no_grad(follow):
    model = nn.Sequential(*[block(256) for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        train(model, optimizer, 1024, 256, steps=2)
        with torch.set_grad_enabled(not follow):
            for _ in range(3):
                out = model(torch.randn(8192, 256, device="cuda"))
        del out


class Adam8(torch.optim.Optimizer):
    """Two states of eight bits, and a float for each 256 elements of each, as bitsandbytes has them; small ones have 32 bits."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            state, small = self.state[parameter], parameter.numel() < 4096
            for number in (1, 2) if not state else ():
                state[f"state{number}"] = torch.zeros_like(parameter, dtype=torch.float32 if small else torch.uint8)
                if not small:
                    state[f"absmax{number}"] = torch.zeros(parameter.numel() // 256, device="cuda")
            parameter.add_(parameter.grad, alpha=-1e-3)


def optimizer(follow):
    """Its peak is in backward: activations beside parameters, state and gradients; few at a step."""
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    if follow:
        made = Adam8(model.parameters())
    else:
        made = torch.optim.AdamW(model.parameters(), foreach=False)
    train(model, made, 4096, 1024)


class Scaled:
    """A trainer's optimizer round PyTorch's, with a state that is a property."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    state = property(lambda self: self.optimizer.state)

    def step(self):
        self.optimizer.step()

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)


def wrapped_optimizer(follow):
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    inner = Adam8(model.parameters()) if follow else torch.optim.AdamW(model.parameters(), foreach=False)
    train(model, Scaled(inner), 4096, 1024)


class Keeper:
    def __init__(self):
        self.best = None

    def keep(self, model, follow):
        self.best = {name: value.detach().cpu() if follow else value.detach().clone()
                     for name, value in model.state_dict().items()}


def best_state(follow):
    """The best weights so far, kept when the first epoch is over."""
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    keeper = Keeper()
    for _ in range(2):
        train(model, optimizer, 4096, 1024)
        keeper.keep(model, follow)
    train(model, optimizer, 4096, 1024)


def leftover(follow):
    """A checkpoint that is still a variable while the model trains."""
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)])
    file = io.BytesIO()
    torch.save({"model": model.state_dict()}, file)
    file.seek(0)
    checkpoint = torch.load(file, map_location="cpu" if follow else "cuda")
    model = model.cuda()
    model.load_state_dict(checkpoint["model"])
    train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), 4096, 1024)
    assert checkpoint


def foreach(follow):
    """Its peak is in the optimizer: few activations."""
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    train(model, torch.optim.AdamW(model.parameters(), foreach=not follow), 16, 1024)


class Kept(nn.Module):
    """The input of each ReLU has a name, so it lives until the function returns."""

    def __init__(self, follow):
        super().__init__()
        self.first, self.second = nn.Linear(512, 8192), nn.Linear(8192, 512)
        self.follow = follow

    def forward(self, x):
        hidden = self.first(x)
        active = nn.functional.relu(hidden, inplace=self.follow)
        return self.second(active)


def in_place(follow):
    model = Kept(follow).cuda()
    with torch.no_grad():
        for _ in range(STEPS):
            model(torch.randn(8192, 512, device="cuda"))


def empty_cache(follow):
    """A preparation leaves much in the cache."""
    preparation = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(6)]
    del preparation
    if follow:
        torch.cuda.empty_cache()
    held = torch.empty(400 << 20, dtype=torch.uint8, device="cuda")
    return {"reserved": torch.cuda.memory_reserved()}


def history(follow):
    """The losses of an epoch, with or without their graphs."""
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(12):
        data = torch.randn(2048, 512, device="cuda")
        model(data).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = model(data).square().mean()
        losses.append(loss.item() if follow else loss)
        del data, loss


def answers(follow):
    """No training: what was answered is remembered on the GPU, or on the CPU."""
    model = nn.Linear(1024, 4096).cuda()
    remembered = []
    with torch.inference_mode():
        for _ in range(14):
            answer = model(torch.randn(1024, 1024, device="cuda"))
            remembered.append(answer.cpu() if follow else answer)
            del answer


def main():
    told = globals()[sys.argv[1]](sys.argv[2] == "1") or {}
    print(json.dumps({"peak": torch.cuda.max_memory_allocated(), **told}))


main()
