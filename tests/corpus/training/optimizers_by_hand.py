"""Optimizers that do not come with torch: some inherit from its base class, some from nothing."""
import math
from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SpeechNet(nn.Module):
    """Frames in, phonemes out."""

    def __init__(self, mel=80, width=320, phonemes=48):
        super().__init__()
        self.conv = nn.Conv1d(mel, width, 5, padding=2)
        self.gru_like = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.head = nn.Linear(width, phonemes)

    def forward(self, mel):
        h = self.conv(mel).transpose(1, 2)
        for layer, norm in zip(self.gru_like, self.norms):
            h = h + torch.tanh(layer(norm(h)))
        return self.head(h)


def utterances(n=8, frames=60):
    mel = torch.randn(n, 80, frames)
    labels = torch.randint(48, (n, frames))
    return mel.cuda(non_blocking=True), labels.cuda(non_blocking=True)


def loss_of(net, mel, labels):
    return F.cross_entropy(net(mel).flatten(0, 1), labels.flatten())


# --- no base class -------------------------------------------------------------------------------------------------

class AdamFromTheBook:
    """As a course has its students write it."""

    def __init__(self, parameters, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.lr, self.beta1, self.beta2, self.eps, self.weight_decay = lr, beta1, beta2, eps, weight_decay
        self.t = 0
        self.first_moments = [torch.zeros_like(p) for p in self.parameters]
        self.second_moments = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def update(self):
        self.t += 1
        correction = math.sqrt(1 - self.beta2**self.t) / (1 - self.beta1**self.t)
        with torch.no_grad():
            for p, m, v in zip(self.parameters, self.first_moments, self.second_moments):
                g = p.grad + self.weight_decay * p
                m.copy_(self.beta1 * m + (1 - self.beta1) * g)
                v.copy_(self.beta2 * v + (1 - self.beta2) * g**2)
                p -= self.lr * correction * m / (v.sqrt() + self.eps)


def adam_from_the_book(record):
    net = SpeechNet().cuda()
    opt = AdamFromTheBook(net.parameters())
    record.watch([net])
    record.hold("optimizer_state", lambda: [opt.first_moments, opt.second_moments])
    for epoch in range(5):
        mel, labels = utterances()
        loss = loss_of(net, mel, labels)
        record.take("fwd", epoch, (mel, labels))
        opt.zero_grad()
        loss.backward()
        record.take("bwd", epoch, (mel, labels))
        opt.update()
        record.take("step", epoch, (mel, labels))


# --- functions and a state that is passed on -------------------------------------------------------------------------

class LambState(NamedTuple):
    count: int
    mu: dict
    nu: dict


def lamb_init(params):
    return LambState(0, {}, {})


def trust_ratio(weight, update):
    w, u = weight.norm(), update.norm()
    return torch.where((w > 0) & (u > 0), w / u, torch.ones_like(w))


@torch.no_grad()
def lamb_update(params, grads, state, lr=2e-3, b1=0.9, b2=0.999, decay=0.01):
    """LAMB in the manner of optax: nothing is changed in place but the weights."""
    mu = {k: b1 * state.mu[k] + (1 - b1) * g if k in state.mu else (1 - b1) * g for k, g in grads.items()}
    nu = {k: b2 * state.nu[k] + (1 - b2) * g.square() if k in state.nu else (1 - b2) * g.square() for k, g in grads.items()}
    count = state.count + 1
    for k, w in params.items():
        m, v = mu[k] / (1 - b1**count), nu[k] / (1 - b2**count)
        direction = m / (v.sqrt() + 1e-6) + decay * w
        w.add_(direction * trust_ratio(w, direction), alpha=-lr)
    return LambState(count, mu, nu)


def lamb_like_optax(record):
    net = SpeechNet().to("cuda")
    params = dict(net.named_parameters())
    state = lamb_init(params)
    record.watch([net])
    record.hold("optimizer_state", lambda: [state.mu, state.nu])
    for it in range(5):
        mel, labels = utterances()
        loss = loss_of(net, mel, labels)
        record.take("fwd", it, (mel, labels))
        loss.backward()
        record.take("bwd", it, (mel, labels))
        grads = {k: p.grad for k, p in params.items()}
        state = lamb_update(params, grads, state)
        del grads
        net.zero_grad()
        record.take("step", it, (mel, labels))


# --- a wrapper round another optimizer --------------------------------------------------------------------------------

class LookaheadAround:
    """k steps forward, one step back. Slow weights in a list beside the inner optimizer's."""

    def __init__(self, inner, k=2, alpha=0.5):
        self.inner, self.k, self.alpha, self.calls = inner, k, alpha, 0
        self.slow = [[p.detach().clone() for p in group["params"]] for group in inner.param_groups]

    def zero_grad(self):
        self.inner.zero_grad()

    @torch.no_grad()
    def _synchronize(self):
        for group, slow in zip(self.inner.param_groups, self.slow):
            for fast, s in zip(group["params"], slow):
                s.add_(fast - s, alpha=self.alpha)
                fast.copy_(s)

    def step(self):
        self.inner.step()
        self.calls += 1
        if self.calls % self.k == 0:
            self._synchronize()


def lookahead_around_radam(record):
    net = SpeechNet(width=288).cuda()
    opt = LookaheadAround(torch.optim.RAdam(net.parameters(), lr=1e-3))
    record.watch([net], [opt.inner])
    record.hold("optimizer_state", lambda: opt.slow)
    for it in range(4):
        mel, labels = utterances()
        opt.zero_grad()
        loss = loss_of(net, mel, labels)
        record.take("fwd", it, (mel, labels))
        loss.backward()
        record.take("bwd", it, (mel, labels))
        opt.step()
        record.take("step", it, (mel, labels))


# --- GaLore --------------------------------------------------------------------------------------------------------

class Projector:
    """Gradients of large matrices live in a subspace that is renewed from time to time."""

    def __init__(self, rank, update_gap):
        self.rank, self.update_gap, self.ortho = rank, update_gap, None

    def project(self, grad, step):
        if self.ortho is None or step % self.update_gap == 0:
            self.ortho = self._basis(grad)
        return self.ortho.t() @ grad

    def project_back(self, low):
        return self.ortho @ low

    def _basis(self, grad):
        # A power iteration instead of an SVD.
        sketch = grad @ torch.randn(grad.shape[1], self.rank, device=grad.device, dtype=grad.dtype)
        for _ in range(2):
            sketch = grad @ (grad.t() @ sketch)
            sketch = sketch / sketch.norm(dim=0, keepdim=True).clamp_min(1e-6)
        return sketch


class LowRankAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)

    def _update(self, p, group):
        grad, state = p.grad, self.state[p]
        state["step"] = state.get("step", 0) + 1
        if "rank" in group and p.dim() == 2:
            if "projector" not in state:
                state["projector"] = Projector(group["rank"], group["update_proj_gap"])
            grad = state["projector"].project(grad, state["step"])
        if "exp_avg" not in state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(grad), torch.zeros_like(grad)
        beta1, beta2 = group["betas"]
        state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        update = state["exp_avg"] / (state["exp_avg_sq"].sqrt() + group["eps"])
        if "projector" in state:
            update = state["projector"].project_back(update) * group["scale"]
        p.add_(update, alpha=-group["lr"])


def low_rank_gradients(record):
    torch.manual_seed(3)
    net = nn.Sequential(OrderedDict(inp=nn.Linear(384, 768), act=nn.GELU(), mid=nn.Linear(768, 768), act2=nn.GELU(),
                                    out=nn.Linear(768, 100))).cuda()
    matrices = [p for p in net.parameters() if p.dim() == 2]
    rest = [p for p in net.parameters() if p.dim() != 2]
    opt = LowRankAdamW([{"params": rest}, {"params": matrices, "rank": 48, "update_proj_gap": 3, "scale": 0.25}], lr=1e-2)
    record.watch([net], [opt])
    record.hold("optimizer_state", lambda: [s["projector"].ortho for s in opt.state.values() if "projector" in s])
    for it in range(5):
        x = torch.randn(96, 384).cuda()
        y = torch.randint(100, (96,)).cuda()
        loss = F.cross_entropy(net(x), y)
        record.take("fwd", it, (x, y))
        loss.backward()
        record.take("bwd", it, (x, y))
        opt.step()
        opt.zero_grad()
        record.take("step", it, (x, y))


# --- variance by rows and columns, for a list of flat gradients --------------------------------------------------------

class Factored:
    """One weight's second moment: a row and a column where it is a matrix, else whole; a momentum in bfloat16."""

    __slots__ = ("rows", "columns", "whole", "momentum")

    def __init__(self, like: Tensor):
        self.rows = self.columns = self.whole = None
        if like.dim() >= 2:
            self.rows = like.new_zeros(like.shape[:-1])
            self.columns = like.new_zeros(like.shape[:-2] + like.shape[-1:])
        else:
            self.whole = torch.zeros_like(like)
        self.momentum = torch.zeros_like(like, dtype=torch.bfloat16)

    def scaled(self, g, decay):
        sq = g * g + 1e-30
        if self.whole is not None:
            self.whole.lerp_(sq, 1 - decay)
            return g * self.whole.rsqrt()
        self.rows.lerp_(sq.mean(-1), 1 - decay)
        self.columns.lerp_(sq.mean(-2), 1 - decay)
        r = (self.rows / self.rows.mean(-1, keepdim=True)).rsqrt_().unsqueeze(-1)
        return g * r * self.columns.rsqrt().unsqueeze(-2)

    def tensors(self):
        return [t for t in (self.rows, self.columns, self.whole, self.momentum) if t is not None]


class AdafactorByHand(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, clip=1.0):
        super().__init__(params, dict(lr=lr, clip=clip))
        self.memory = {}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for index, p in enumerate(group["params"]):
                if p.grad is None:
                    continue
                if index not in self.memory:
                    self.memory[index] = Factored(p)
                memory = self.memory[index]
                update = memory.scaled(p.grad.float(), 0.99)
                update /= (update.norm() / math.sqrt(update.numel()) / group["clip"]).clamp_(min=1.0)
                memory.momentum.lerp_(update.bfloat16(), 0.1)
                p.sub_(memory.momentum, alpha=group["lr"])


def adafactor_with_slots(record):
    net = SpeechNet(width=416).cuda()
    opt = AdafactorByHand(net.parameters())
    record.watch([net], [opt])
    record.hold("optimizer_state", lambda: [m.tensors() for m in opt.memory.values()])
    for it in range(4):
        mel, labels = utterances(6)
        loss = loss_of(net, mel, labels)
        record.take("fwd", it, (mel, labels))
        loss.backward()
        record.take("bwd", it, (mel, labels))
        opt.step()
        opt.zero_grad(set_to_none=True)
        record.take("step", it, (mel, labels))
