"""Optimizers as people write them into a file of their own: optimizers.py trains with them. No file or function here is named as
PyTorch names its own."""
import contextlib
import dataclasses
import functools
import math

import torch
from torch import nn


class Soap(torch.optim.Optimizer):
    """Adam in the eigenbasis of Shampoo's preconditioner, as it goes round."""

    def __init__(self, params, lr=3e-3, betas=(0.95, 0.95), precondition_frequency=2, max_precond_dim=10000):
        defaults = {"lr": lr, "betas": betas, "precondition_frequency": precondition_frequency,
                    "max_precond_dim": max_precond_dim}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad, self.state[p]
                if "step" not in state:
                    state["step"] = 0
                if "exp_avg" not in state:
                    state["exp_avg"] = torch.zeros_like(grad)
                    state["exp_avg_sq"] = torch.zeros_like(grad)
                if "Q" not in state:
                    self.init_preconditioner(grad, state, group["max_precond_dim"])
                    self.update_preconditioner(grad, state, group)
                    continue
                grad_projected = self.project(grad, state)
                state["step"] += 1
                beta1, beta2 = group["betas"]
                state["exp_avg"].mul_(beta1).add_(grad_projected, alpha=1.0 - beta1)
                state["exp_avg_sq"].mul_(beta2).add_(grad_projected.square(), alpha=1.0 - beta2)
                denominator = state["exp_avg_sq"].sqrt().add_(1e-8)
                p.add_(self.project(state["exp_avg"] / denominator, state, back=True), alpha=-group["lr"])
                self.update_preconditioner(grad, state, group)
        return loss

    def init_preconditioner(self, grad, state, max_precond_dim):
        state["GG"] = []
        if grad.dim() == 1:
            state["GG"].append([])
        else:
            for size in grad.shape:
                state["GG"].append([] if size > max_precond_dim else torch.zeros(size, size, device=grad.device))
        state["Q"] = None

    def project(self, grad, state, back=False):
        for matrix in state["Q"]:
            if len(matrix) > 0:
                grad = torch.tensordot(grad, matrix, dims=[[0], [1 if back else 0]])
            elif grad.dim() > 1:
                grad = grad.permute([*range(1, grad.dim()), 0])
        return grad

    def update_preconditioner(self, grad, state, group):
        if grad.dim() > 1:
            for index, size in enumerate(grad.shape):
                if size <= group["max_precond_dim"]:
                    others = [axis for axis in range(grad.dim()) if axis != index]
                    outer = torch.tensordot(grad, grad, dims=[others, others])
                    state["GG"][index].lerp_(outer, 0.05)
        if state["Q"] is None:
            state["Q"] = self.get_orthogonal_matrix(state["GG"])
        elif state["step"] % group["precondition_frequency"] == 0:
            state["Q"] = self.get_orthogonal_matrix(state["GG"])

    def get_orthogonal_matrix(self, matrices):
        final = []
        for matrix in matrices:
            if len(matrix) == 0:
                final.append([])
                continue
            basis = matrix / (matrix.norm() + 1e-7)
            for _ in range(2):  # instead of eigh
                basis = 1.5 * basis - 0.5 * basis @ basis.T @ basis
            final.append(basis)
        return final


@dataclasses.dataclass
class PreconditionerBlock:
    statistics: list
    inverses: list = dataclasses.field(default_factory=list)


def inverse_root(matrix, power):
    scaled = matrix / matrix.norm().clamp_min(1e-6)
    return (lambda root: root / power)(scaled @ scaled.T)


class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1, momentum=0.9, update_every=2):
        super().__init__(params, {"lr": lr})
        self.momentum, self.update_every, self.iteration = momentum, update_every, 0
        self.blocks, self.momenta = {}, []

    def _ensure_built(self):
        if self.blocks:
            return
        parameters = [p for group in self.param_groups for p in group["params"]]
        self.momenta = [torch.zeros_like(p) for p in parameters]
        for index, p in enumerate(parameters):
            sizes = p.shape if p.dim() > 1 else ()
            self.blocks[index] = PreconditionerBlock([1e-4 * torch.eye(n, device=p.device) for n in sizes])

    @torch.no_grad()
    def step(self):
        self._ensure_built()
        self.iteration += 1
        index = 0
        for group in self.param_groups:
            for p in group["params"]:
                self._update(p, self.blocks[index], self.momenta[index], group["lr"])
                index += 1

    def _update(self, p, block, momentum, lr):
        update = p.grad
        for axis, statistics in enumerate(block.statistics):
            flat = p.grad.transpose(0, axis).reshape(p.shape[axis], -1)
            statistics.add_(flat @ flat.T)
        if self.iteration % self.update_every == 1:
            block.inverses = [inverse_root(statistics, 2 * p.dim()) for statistics in block.statistics]
        for axis, inverse in enumerate(block.inverses):
            update = torch.movedim(torch.tensordot(inverse, update, dims=([0], [axis])), 0, axis)
        momentum.mul_(self.momentum).add_(update)
        p.add_(momentum, alpha=-lr)


def zeropower_via_newtonschulz5(G, steps=5):
    a, b, c = (3.4445, -4.7750, 2.0315)
    X = G.bfloat16()
    if G.size(-2) > G.size(-1):
        X = X.mT
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        A = X @ X.mT
        B = b * A + c * A @ A
        X = a * X + B @ X
    if G.size(-2) > G.size(-1):
        X = X.mT
    return X


def muon_update(grad, momentum, beta=0.95):
    momentum.lerp_(grad, 1 - beta)
    update = zeropower_via_newtonschulz5(grad.lerp(momentum, beta))
    return update * max(1, grad.size(-2) / grad.size(-1)) ** 0.5


def adam_update(grad, buf1, buf2, step, betas):
    buf1.lerp_(grad, 1 - betas[0])
    buf2.lerp_(grad.square(), 1 - betas[1])
    return (buf1 / (1 - betas[0] ** step)) / ((buf2 / (1 - betas[1] ** step)).sqrt() + 1e-10)


class MuonWithAuxAdam(torch.optim.Optimizer):
    def __init__(self, param_groups):
        for group in param_groups:
            group.setdefault("lr", 0.02)
        super().__init__(param_groups, {})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if group["use_muon"]:
                    if len(state) == 0:
                        state["momentum_buffer"] = torch.zeros_like(p)
                    update = muon_update(p.grad, state["momentum_buffer"])
                else:
                    if len(state) == 0:
                        state.update(exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p), step=0)
                    state["step"] += 1
                    update = adam_update(p.grad, state["exp_avg"], state["exp_avg_sq"], state["step"], (0.9, 0.95))
                p.add_(update.reshape(p.shape).type_as(p), alpha=-group["lr"])


class Adafactor(torch.optim.Optimizer):
    """Rows and columns instead of whole second moments; first moments as clones."""

    def __init__(self, params, lr=1e-3, beta1=0.9):
        super().__init__(params, dict(lr=lr, beta1=beta1))

    @staticmethod
    def _rms(tensor):
        return tensor.norm(2) / (tensor.numel() ** 0.5)

    @staticmethod
    def _approx_sq_grad(rows, columns):
        return torch.mul((rows / rows.mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1), columns.unsqueeze(-2).rsqrt())

    def _init(self, p):
        zeros = functools.partial(torch.zeros, device=p.device)
        moments = {"row": zeros(p.shape[:-1]), "col": zeros(p.shape[:-2] + p.shape[-1:])} if p.dim() > 1 else {"full": zeros(p.shape)}
        return {"step": 0, "moments": moments, "exp_avg": p.grad.detach().clone()}

    @torch.no_grad()
    def step(self, closure=None):
        if closure is not None:
            with torch.enable_grad():
                closure()
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                state = self.state[p] or self.state.setdefault(p, {})
                if not state:
                    state.update(self._init(p))
                state["step"] += 1
                update = p.grad**2 + 1e-30
                if "row" in state["moments"]:
                    state["moments"]["row"].lerp_(update.mean(dim=-1), 0.1)
                    state["moments"]["col"].lerp_(update.mean(dim=-2), 0.1)
                    update = self._approx_sq_grad(state["moments"]["row"], state["moments"]["col"]).mul_(p.grad)
                else:
                    update = state["moments"]["full"].lerp_(update, 0.1).rsqrt().mul_(p.grad)
                update.div_((self._rms(update) / 1.0).clamp_(min=1.0))
                state["exp_avg"].mul_(group["beta1"]).add_(update, alpha=1 - group["beta1"])
                p.add_(state["exp_avg"], alpha=-group["lr"])


class ScheduleFree(torch.optim.Optimizer):
    """Weights for training and for evaluation are swapped in place; z is a clone of the weights."""

    def __init__(self, params, lr=0.025):
        super().__init__(params, {"lr": lr, "k": 0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            active = [p for p in group["params"] if p.grad is not None]
            for p in active:
                if "z" not in self.state[p]:
                    self.state[p]["z"] = torch.clone(p, memory_format=torch.preserve_format)
                    self.state[p]["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.preserve_format)
            y, grad, z, square = zip(*((p.data, p.grad, self.state[p]["z"], self.state[p]["exp_avg_sq"]) for p in active))
            torch._foreach_mul_(square, 0.999)
            torch._foreach_addcmul_(square, grad, grad, value=0.001)
            denominators = torch._foreach_sqrt(square)
            torch._foreach_add_(denominators, 1e-8)
            torch._foreach_div_(grad, denominators)
            torch._foreach_lerp_(y, z, weight=1 / (group["k"] + 1))
            torch._foreach_sub_(z, grad, alpha=group["lr"])
            group["k"] += 1


@dataclasses.dataclass
class OptState:
    mu: dict
    nu: dict
    count: int = 0


def tree_map(function, *trees):
    return {key: function(*(tree[key] for tree in trees)) for key in trees[0]}


def init_opt_state(params):
    return OptState(mu=tree_map(torch.zeros_like, params), nu=tree_map(lambda p: p.detach() * 0, params))


def apply_updates(params, grads, state, lr=1e-3):
    state.count += 1
    state.mu = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state.mu, grads)
    state.nu = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, state.nu, grads)
    correction = math.sqrt(1 - 0.999**state.count)
    updates = tree_map(lambda m, v: -lr * correction * m / (v.sqrt() + 1e-8), state.mu, state.nu)
    for key, parameter in params.items():
        parameter.data.add_(updates[key])


class MomentumUpdater:
    """Keeps its velocity in two lists beside each other; knows nothing of torch.optim."""

    def __init__(self, model, rate=0.1):
        self.targets = [p for p in model.parameters() if p.requires_grad]
        self.velocity = {"weights": [], "biases": []}
        self.rate = rate

    def slot(self, target):
        return self.velocity["weights" if target.dim() > 1 else "biases"]

    def apply(self):
        with torch.no_grad():
            first = not self.velocity["weights"]
            counts = {"weights": 0, "biases": 0}
            for target in self.targets:
                slots = self.slot(target)
                if first:
                    slots.append(target.grad.clone())
                kind = "weights" if target.dim() > 1 else "biases"
                velocity = slots[counts[kind]]
                counts[kind] += 1
                velocity.mul_(0.9).add_(target.grad)
                target.sub_(velocity * self.rate)

    def clear(self):
        for target in self.targets:
            target.grad = None


class FP16_Optimizer:
    """As in apex: masters in float32 for a model in half precision; no Optimizer itself."""

    def __init__(self, init_optimizer, static_loss_scale=128.0):
        self.optimizer, self.loss_scale = init_optimizer, static_loss_scale
        self.fp16_groups, self.fp32_from_fp16_groups = [], []
        for group in self.optimizer.param_groups:
            halves, masters = [], []
            for index, parameter in enumerate(group["params"]):
                master = parameter.detach().clone().float()
                master.requires_grad = True
                group["params"][index] = master
                halves.append(parameter)
                masters.append(master)
            self.fp16_groups.append(halves)
            self.fp32_from_fp16_groups.append(masters)

    def _get_state(self):
        return self.optimizer.state

    state = property(_get_state)
    param_groups = property(lambda self: self.optimizer.param_groups)

    def zero_grad(self):
        for group in self.fp16_groups:
            for parameter in group:
                parameter.grad = None

    def backward(self, loss):
        (loss.float() * self.loss_scale).backward()

    def update_master_grads(self):
        for halves, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups):
            for half, master in zip(halves, masters):
                if master.grad is None:
                    master.grad = torch.empty_like(master)
                master.grad.copy_(half.grad).mul_(1.0 / self.loss_scale)

    @torch.no_grad()
    def step(self):
        self.update_master_grads()
        self.optimizer.step()
        for halves, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups):
            for half, master in zip(halves, masters):
                half.data.copy_(master.data)


class SAM(torch.optim.Optimizer):
    """Two passes a step: up to where the loss is sharpest, and back."""

    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        scale = self.param_groups[0]["rho"] / (self._grad_norm() + 1e-12)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * scale.to(p))
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        closure = torch.enable_grad()(closure)
        self.first_step(zero_grad=True)
        closure()
        self.second_step()

    def _grad_norm(self):
        return torch.norm(torch.stack([p.grad.norm(p=2) for group in self.param_groups for p in group["params"]]), p=2)


class GradScaledOptimizer:
    """A wrapper of somebody's trainer: clips, steps, remembers how often it skipped."""

    def __init__(self, optim, max_norm=1.0):
        self.optim, self.max_norm, self.skipped = optim, max_norm, 0

    @property
    def state(self):
        return self.optim.state

    def parameters(self):
        return [p for group in self.optim.param_groups for p in group["params"]]

    def step(self):
        norm = nn.utils.clip_grad_norm_(self.parameters(), self.max_norm)
        with contextlib.suppress(FloatingPointError):
            self.apply(norm)

    def apply(self, norm):
        self.optim.step()

    def zero_grad(self):
        self.optim.zero_grad(set_to_none=True)
