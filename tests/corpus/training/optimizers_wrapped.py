"""Optimizers that a repository brings along, and one that wraps another."""
import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, words=2000, d=192, layers=2, classes=20):
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(d, 4, 3 * d, dropout=0.0, batch_first=True, norm_first=True)
                                    for _ in range(layers))
        self.head = nn.Linear(d, classes)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def train(record, model, optimizer, steps=4, dtype=None):
    for step in range(steps):
        tokens, labels = torch.randint(0, 2000, (8, 48)).cuda(), torch.randint(0, 20, (8,)).cuda()
        loss = F.cross_entropy(model(tokens).float(), labels)
        record.take("fwd", step, (tokens, labels))
        optimizer.zero_grad()
        (optimizer.scale(loss) if hasattr(optimizer, "scale") else loss).backward()
        record.take("bwd", step, (tokens, labels))
        optimizer.step()
        record.take("step", step, (tokens, labels))


# --- Adan --------------------------------------------------------------------------------------------------------------------------

class Adan(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.98, 0.92, 0.99), eps=1e-8, weight_decay=0.0, max_grad_norm=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, max_grad_norm=max_grad_norm))

    @torch.no_grad()
    def step(self, closure=None):
        clip = self.global_clip()
        for group in self.param_groups:
            collected = [[], [], [], [], [], []]
            group["step"] = group.get("step", 0) + 1
            for p in group["params"]:
                if p.grad is not None:
                    self.collect(p, group, collected, clip)
            if collected[0]:
                _multi_tensor_adan(*collected, group, clip)

    def global_clip(self):
        if self.defaults["max_grad_norm"] <= 0:
            return torch.tensor(1.0, device=self.param_groups[0]["params"][0].device)
        total = sum(p.grad.pow(2).sum() for group in self.param_groups for p in group["params"] if p.grad is not None)
        return torch.clamp(self.defaults["max_grad_norm"] / (total.sqrt() + 1e-6), max=1.0)

    def collect(self, p, group, collected, clip):
        state = self.state[p]
        if len(state) == 0:
            state["exp_avg"], state["exp_avg_sq"], state["exp_avg_diff"] = (torch.zeros_like(p) for _ in range(3))
        if "neg_pre_grad" not in state or group["step"] == 1:
            state["neg_pre_grad"] = p.grad.clone().mul_(-clip)
        for items, item in zip(collected, (p, p.grad, state["exp_avg"], state["exp_avg_sq"], state["exp_avg_diff"],
                                           state["neg_pre_grad"])):
            items.append(item)


def _multi_tensor_adan(params, grads, exp_avgs, exp_avg_sqs, exp_avg_diffs, neg_pre_grads, group, clip):
    beta1, beta2, beta3 = group["betas"]
    correction1, correction2, correction3 = (1.0 - beta ** group["step"] for beta in group["betas"])
    torch._foreach_mul_(grads, clip)
    torch._foreach_add_(neg_pre_grads, grads)
    torch._foreach_mul_(exp_avgs, beta1)
    torch._foreach_add_(exp_avgs, grads, alpha=1 - beta1)
    torch._foreach_mul_(exp_avg_diffs, beta2)
    torch._foreach_add_(exp_avg_diffs, neg_pre_grads, alpha=1 - beta2)
    torch._foreach_mul_(neg_pre_grads, beta2)
    torch._foreach_add_(neg_pre_grads, grads)
    torch._foreach_mul_(exp_avg_sqs, beta3)
    torch._foreach_addcmul_(exp_avg_sqs, neg_pre_grads, neg_pre_grads, 1 - beta3)
    denom = torch._foreach_sqrt(exp_avg_sqs)
    torch._foreach_div_(denom, correction3 ** 0.5)
    torch._foreach_add_(denom, group["eps"])
    torch._foreach_addcdiv_(params, exp_avgs, denom, -group["lr"] / correction1)
    torch._foreach_addcdiv_(params, exp_avg_diffs, denom, -group["lr"] * beta2 / correction2)
    torch._foreach_div_(params, 1 + group["lr"] * group["weight_decay"])
    torch._foreach_zero_(neg_pre_grads)
    torch._foreach_add_(neg_pre_grads, grads, alpha=-1.0)


def adan_of_a_repository(record):
    """Four tensors for each parameter, one of which begins as the gradient's copy; gradients are clipped within."""
    model = Encoder().cuda()
    optimizer = Adan(model.parameters(), lr=1e-3, weight_decay=0.02, max_grad_norm=5.0)
    record.watch([model], [optimizer])
    train(record, model, optimizer)


# --- Kronecker-factored preconditioners ------------------------------------------------------------------------------------------------

def init_Q(t, scale):
    """A triangular factor for each dimension, a diagonal one where it is long."""
    if t.dim() < 2:
        return [scale * torch.ones_like(t.flatten())]
    return [torch.ones(size, device=t.device) * scale ** (1 / t.dim()) if size > 600 else
            torch.eye(size, device=t.device) * scale ** (1 / t.dim()) for size in t.shape]


class KronPreconditioned(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, b1=0.9, precond_lr=0.1, every=2):
        super().__init__(params, dict(lr=lr, b1=b1, precond_lr=precond_lr, every=every))
        self._steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self._steps += 1
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                state = self.state[p]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(p.grad)
                    state["precond"] = {"Q": init_Q(p.grad, 1.0), "updates": 0}
                state["momentum_buffer"].mul_(group["b1"]).add_(p.grad, alpha=1 - group["b1"])
                if self._steps % group["every"] == 0:
                    self._update_precond(state["precond"], state["momentum_buffer"], group["precond_lr"])
                update = self._precondition(state["precond"]["Q"], state["momentum_buffer"])
                p.add_(update.view_as(p), alpha=-group["lr"])

    @staticmethod
    def _apply(Q, g, side):
        if Q.dim() == 1:
            return Q.view(-1, 1) * g if side == 0 else g * Q
        return Q @ g if side == 0 else g @ Q.t()

    def _precondition(self, Qs, g):
        if len(Qs) == 1:
            return Qs[0] * g.flatten() * Qs[0]
        for side, Q in enumerate(Qs):
            g = self._apply(Q, self._apply(Q, g, side), side)
        return g

    def _update_precond(self, precond, g, lr):
        precond["updates"] += 1
        noisy = torch.randn_like(g).mul_(1e-8).add_(g)
        terms = [noisy.flatten()] if len(precond["Q"]) == 1 else [self._apply(Q, noisy, i) for i, Q in enumerate(precond["Q"])]
        precond["Q"] = [Q - lr * Q * self._curvature(Q, term, i) for i, (Q, term) in enumerate(zip(precond["Q"], terms))]

    @staticmethod
    def _curvature(Q, term, side):
        if term.dim() == 1:
            return term.square().clamp(max=1.0)
        if Q.dim() == 1:
            return term.square().sum(1 - side).clamp(max=1.0)
        product = term @ term.t() if side == 0 else term.t() @ term
        return torch.triu(product / (product.norm() + 1e-6))


def kron_preconditioned(record):
    """Preconditioners in lists within a dict of the state, built anew at every second step."""
    model = Encoder(layers=3).cuda()
    optimizer = KronPreconditioned(model.parameters(), lr=3e-4)
    record.watch([model], [optimizer])
    train(record, model, optimizer)


# --- a wrapper -------------------------------------------------------------------------------------------------------------------------

class MixedPrecisionOptimizer:
    """Weights in bfloat16, full-precision masters in the wrapped optimizer, a loss scale that adapts itself."""

    def __init__(self, init_optimizer, model, loss_scale=2.0 ** 10):
        self.optimizer, self.loss_scale = init_optimizer, loss_scale
        self.model_params, self.master_params = [], []
        for group in self.optimizer.param_groups:
            masters = []
            for p in group["params"]:
                master = p.detach().clone().float()
                master.requires_grad = True
                masters.append(master)
                self.model_params.append(p)
            group["params"] = masters
            self.master_params += masters

    @property
    def state(self):
        return self.optimizer.state

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def scale(self, loss):
        return loss * self.loss_scale

    def zero_grad(self):
        for p in self.model_params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, master in zip(self.model_params, self.master_params):
            if p.grad is not None:
                master.grad = p.grad.float().div_(self.loss_scale)
        nn.utils.clip_grad_norm_(self.master_params, 1.0)
        self.optimizer.step()
        for p, master in zip(self.model_params, self.master_params):
            p.copy_(master)
            master.grad = None


def masters_in_wrapper(record):
    """AdamW behind a wrapper of mixed precision; the masters' gradients live within a step only."""
    model = Encoder(layers=3).cuda().bfloat16()
    optimizer = MixedPrecisionOptimizer(torch.optim.AdamW(model.parameters(), lr=1e-4), model)
    record.watch([model], [optimizer])
    record.hold("parameter", lambda: optimizer.master_params)
    hook = optimizer.optimizer.register_step_pre_hook(
        lambda *_: record.note("gradient", [master.grad for master in optimizer.master_params]))
    train(record, model, optimizer)
    hook.remove()
