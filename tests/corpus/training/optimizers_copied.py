"""Optimizers as people copy them into their repositories, and wrappers round them."""
import dataclasses
import math
from collections import defaultdict
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, d=256, h=384, n=40):
        super().__init__()
        self.inp = nn.Linear(d, h)
        self.mid = nn.Linear(h, h)
        self.out = nn.Linear(h, n)

    def forward(self, x):
        x = F.silu(self.inp(x))
        x = x + F.silu(self.mid(x))
        return self.out(x)


def get_batch(bs=48, d=256, n=40):
    x = torch.randn(bs, d)
    y = torch.randint(0, n, (bs,))
    return x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)


def take_steps(record, model, opt, micro=1):
    for it in range(5):
        for _ in range(micro):
            x, y = get_batch()
            loss = F.cross_entropy(model(x), y)
            record.take("forward", it, (x, y))
            loss.backward()
            record.take("backward", it, (x, y))
        opt.step()
        record.take("update", it, (x, y))
        opt.zero_grad()


# --- SOAP, cut down -------------------------------------------------------------------------------------------------

class SOAP(torch.optim.Optimizer):
    def __init__(self, params, lr=3e-3, betas=(0.95, 0.95), shampoo_beta=0.9, eps=1e-8, precondition_frequency=2):
        super().__init__(params, dict(lr=lr, betas=betas, shampoo_beta=shampoo_beta, eps=eps,
                                      precondition_frequency=precondition_frequency))

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
                    self.init_preconditioner(grad, state)
                    self.update_preconditioner(grad, state, group["shampoo_beta"])
                    continue
                projected = self.project(grad, state)
                state["step"] += 1
                b1, b2 = group["betas"]
                state["exp_avg"].mul_(b1).add_(projected, alpha=1 - b1)
                state["exp_avg_sq"].mul_(b2).add_(projected.square(), alpha=1 - b2)
                denom = state["exp_avg_sq"].sqrt().add_(group["eps"])
                p.add_(self.project_back(state["exp_avg"] / denom, state), alpha=-group["lr"])
                self.update_preconditioner(grad, state, group["shampoo_beta"])
                if state["step"] % group["precondition_frequency"] == 0:
                    state["Q"] = self.get_orthogonal_matrix(state)
        return loss

    def init_preconditioner(self, grad, state):
        state["GG"] = []
        if grad.dim() == 1:
            state["GG"].append([])
        else:
            for sh in grad.shape:
                state["GG"].append(torch.zeros(sh, sh, device=grad.device))
        state["Q"] = None

    def update_preconditioner(self, grad, state, beta):
        if grad.dim() == 2:
            for idx, outer in enumerate([grad @ grad.T, grad.T @ grad]):
                state["GG"][idx].lerp_(outer, 1 - beta)
        if state["Q"] is None:
            state["Q"] = [torch.eye(m.shape[0], device=m.device) if len(m) else [] for m in state["GG"]]

    def get_orthogonal_matrix(self, state):
        return [self.normalise(gg @ q) if len(gg) else [] for gg, q in zip(state["GG"], state["Q"])]

    @staticmethod
    def normalise(m):
        return m / (m.norm(dim=0, keepdim=True) + 1e-6)

    def project(self, g, state):
        for i, q in enumerate(state["Q"]):
            if len(q):
                g = torch.tensordot(g, q, dims=[[0], [0]])
        return g

    def project_back(self, g, state):
        for q in state["Q"]:
            if len(q):
                g = torch.tensordot(g, q, dims=[[0], [1]])
        return g


def soap_again(record):
    model = Net().cuda()
    opt = SOAP(model.parameters())
    record.watch([model], [opt])
    record.hold("optimizer_state", lambda: [s[k] for s in opt.state.values() for k in ("GG", "Q") if k in s])
    take_steps(record, model, opt)


# --- Muon with an Adam for the rest ---------------------------------------------------------------------------------

def zeropower_via_newtonschulz5(G, steps=3):
    a, b, c = (3.4445, -4.7750, 2.0315)
    X = G.bfloat16()
    if G.size(-2) > G.size(-1):
        X = X.mT
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        A = X @ X.mT
        B = b * A + c * A @ A
        X = a * X + B @ X
    return X.mT if G.size(-2) > G.size(-1) else X


def muon_update(grad, momentum, beta=0.95):
    momentum.lerp_(grad, 1 - beta)
    return zeropower_via_newtonschulz5(grad.lerp(momentum, beta)) * max(1, grad.size(-2) / grad.size(-1)) ** 0.5


def adam_update(grad, buf1, buf2, step, betas, eps):
    buf1.lerp_(grad, 1 - betas[0])
    buf2.lerp_(grad.square(), 1 - betas[1])
    return buf1 / (1 - betas[0] ** step) / ((buf2 / (1 - betas[1] ** step)).sqrt() + eps)


class MuonWithAuxAdam(torch.optim.Optimizer):
    def __init__(self, param_groups):
        super().__init__(param_groups, dict(lr=0.02, weight_decay=0.01))

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
                        state["exp_avg"] = torch.zeros_like(p)
                        state["exp_avg_sq"] = torch.zeros_like(p)
                        state["step"] = 0
                    state["step"] += 1
                    update = adam_update(p.grad, state["exp_avg"], state["exp_avg_sq"], state["step"], (0.9, 0.95), 1e-10)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update.reshape(p.shape), alpha=-group["lr"])


def muon_with_adam(record):
    torch.set_float32_matmul_precision("high")
    model = nn.Sequential(nn.Embedding(600, 192), nn.Linear(192, 512, bias=False), nn.GELU(),
                          nn.Linear(512, 192, bias=False), nn.RMSNorm(192), nn.Linear(192, 600)).to("cuda")
    hidden = [p for i, m in enumerate(model) if i in (1, 3) for p in m.parameters()]
    other = [p for p in model.parameters() if all(p is not q for q in hidden)]
    opt = MuonWithAuxAdam([dict(params=hidden, use_muon=True), dict(params=other, use_muon=False)])
    record.watch([model], [opt])
    for it in range(4):
        tokens = torch.randint(600, (8, 33)).cuda()
        x, y = tokens[:, :-1], tokens[:, 1:]
        opt.zero_grad(set_to_none=True)
        logits = model(x)
        loss = F.cross_entropy(logits.reshape(-1, 600), y.reshape(-1))
        record.take("fw", it, tokens)
        loss.backward()
        del logits
        record.take("bw", it, tokens)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        record.take("opt", it, tokens)


# --- Shampoo, its state in objects ----------------------------------------------------------------------------------

@dataclasses.dataclass
class Factor:
    stat: torch.Tensor
    root: torch.Tensor


class BlockPreconditioner:
    def __init__(self, shape, device):
        self.factors: List[Factor] = [Factor(torch.zeros(n, n, device=device), torch.eye(n, device=device)) for n in shape]

    def accumulate(self, g):
        left, right = self.factors
        left.stat.addmm_(g, g.t())
        right.stat.addmm_(g.t(), g)

    def refresh(self):
        for f in self.factors:
            f.root = self._inverse_root(f.stat)

    @staticmethod
    def _inverse_root(m, iters=2):
        x = torch.eye(len(m), device=m.device)
        for _ in range(iters):
            x = 1.5 * x - 0.5 * x @ x @ m
        return x

    def __call__(self, g):
        left, right = self.factors
        return left.root @ g @ right.root


class Shampoo:
    """Not a torch.optim.Optimizer at all."""

    def __init__(self, named_parameters, lr=0.01):
        self.lr, self.t = lr, 0
        self.params = dict(named_parameters)
        self.preconditioners, self.velocity = {}, defaultdict(lambda: None)

    def zero_grad(self):
        for p in self.params.values():
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        for name, p in self.params.items():
            if p.grad is None:
                continue
            g = p.grad
            if g.ndim == 2:
                if name not in self.preconditioners:
                    self.preconditioners[name] = BlockPreconditioner(g.shape, g.device)
                pre = self.preconditioners[name]
                pre.accumulate(g)
                if self.t % 2 == 0:
                    pre.refresh()
                g = pre(g)
            v = self.velocity[name]
            self.velocity[name] = g.clone() if v is None else v.mul_(0.9).add_(g)
            p -= self.lr * self.velocity[name]


def shampoo_objects(record):
    model = Net(h=320).cuda()
    optimizer = Shampoo(model.named_parameters())
    record.watch([model])
    record.hold("optimizer_state", lambda: [list(optimizer.velocity.values()), [
        t for pre in optimizer.preconditioners.values() for f in pre.factors for t in (f.stat, f.root)]])
    for epoch in range(2):
        for i in range(3):
            x, y = get_batch()
            optimizer.zero_grad()
            out = model(x)
            F.cross_entropy(out, y).backward()
            record.take("after_backward", 3 * epoch + i, (x, y))
            optimizer.step()
            record.take("after_step", 3 * epoch + i, (x, y))


# --- half precision model, optimizer wrapped ------------------------------------------------------------------------

class FP16Optimizer:
    """In the manner of old apex: the inner optimizer works on fp32 masters."""

    def __init__(self, init_optimizer, static_loss_scale=128.0):
        self.optimizer = init_optimizer
        self.loss_scale = static_loss_scale
        self.fp16_groups, self.fp32_from_fp16_groups = [], []
        for group in self.optimizer.param_groups:
            halves, masters = [], []
            for i, param in enumerate(group["params"]):
                master = param.detach().clone().float()
                master.requires_grad = True
                group["params"][i] = master
                halves.append(param)
                masters.append(master)
            self.fp16_groups.append(halves)
            self.fp32_from_fp16_groups.append(masters)

    @property
    def state(self):
        return self.optimizer.state

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def zero_grad(self):
        self.optimizer.zero_grad()
        for group in self.fp16_groups:
            for p in group:
                p.grad = None

    def backward(self, loss):
        (loss.float() * self.loss_scale).backward()

    def update_master_grads(self):
        for halves, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups):
            for h, m in zip(halves, masters):
                if h.grad is not None:
                    m.grad = h.grad.float().div_(self.loss_scale)

    def step(self):
        self.update_master_grads()
        self.optimizer.step()
        with torch.no_grad():
            for halves, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups):
                for h, m in zip(halves, masters):
                    h.copy_(m)


def fp16_wrapper(record):
    net = Net(h=512).cuda().half()
    optimizer = FP16Optimizer(torch.optim.Adam(net.parameters(), lr=1e-4))
    record.watch([net], [optimizer])
    record.hold("parameter", lambda: optimizer.fp32_from_fp16_groups)
    record.hold("gradient", lambda: [m.grad for g in optimizer.fp32_from_fp16_groups for m in g])
    for i in range(4):
        x, y = get_batch()
        x = x.half()
        loss = F.cross_entropy(net(x).float(), y)
        record.take("fwd", i, (x, y))
        optimizer.zero_grad()
        optimizer.backward(loss)
        record.take("bwd", i, (x, y))
        optimizer.step()
        record.take("step", i, (x, y))


# --- optimizers as functions over trees -----------------------------------------------------------------------------

def tree_map(fn, *trees):
    if isinstance(trees[0], dict):
        return {k: tree_map(fn, *(t[k] for t in trees)) for k in trees[0]}
    return fn(*trees)


def adam(lr, b1=0.9, b2=0.999, eps=1e-8):
    def init(params):
        return {"mu": tree_map(torch.zeros_like, params), "nu": tree_map(torch.zeros_like, params), "count": 0}

    def update(grads, state, params):
        mu = tree_map(lambda m, g: b1 * m + (1 - b1) * g, state["mu"], grads)
        nu = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, state["nu"], grads)
        new = tree_map(lambda p, m, v: p - lr * m / (v.sqrt() + eps), params, mu, nu)
        return new, {"mu": mu, "nu": nu, "count": state["count"] + 1}

    return init, update


def leaves(tree):
    return [x for t in tree.values() for x in leaves(t)] if isinstance(tree, dict) else [tree]


def functional_adam_again(record):
    def mlp(params, x):
        for i in range(3):
            layer = params[f"dense{i}"]
            x = x @ layer["w"] + layer["b"]
            x = torch.tanh(x) if i < 2 else x
        return x

    sizes = [256, 400, 400, 40]
    params = {f"dense{i}": {"w": torch.randn(a, b, device="cuda") / math.sqrt(a), "b": torch.zeros(b, device="cuda")}
              for i, (a, b) in enumerate(zip(sizes, sizes[1:]))}
    init, update = adam(1e-3)
    opt_state, grads = init(params), {}
    record.hold("parameter", lambda: params)
    record.hold("optimizer_state", lambda: [opt_state["mu"], opt_state["nu"]])
    record.hold("gradient", lambda: grads)
    for step in range(5):
        x, y = get_batch()
        params = tree_map(lambda p: p.detach().requires_grad_(), params)
        loss = F.cross_entropy(mlp(params, x), y)
        record.take("loss", step, (x, y))
        flat = iter(torch.autograd.grad(loss, leaves(params)))
        grads = tree_map(lambda _: next(flat), params)
        record.take("grads", step, (x, y))
        with torch.no_grad():
            params, opt_state = update(grads, opt_state, params)
        grads = {}
        record.take("applied", step, (x, y))


# --- real packages --------------------------------------------------------------------------------------------------

def zero_redundancy_again(record):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    from nets import begin_process_group, end_process_group

    def hook(group, bucket):
        record.note("communication", [bucket.buffer()])
        return allreduce_hook(group, bucket)

    begin_process_group()
    model = Net().cuda()
    ddp = nn.parallel.DistributedDataParallel(model)
    ddp.register_comm_hook(None, hook)
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    record.watch([ddp], [optimizer.optim])
    for step in range(4):
        x, y = get_batch()
        loss = F.cross_entropy(ddp(x), y)
        record.take("forward", step, (x, y))
        loss.backward()
        record.take("backward", step, (x, y))
        optimizer.step()
        record.take("step", step, (x, y))
        optimizer.zero_grad()
    end_process_group()


def adafactor_again(record):
    from transformers import T5Config, T5ForConditionalGeneration
    from transformers.optimization import Adafactor, AdafactorSchedule

    cfg = T5Config(vocab_size=800, d_model=160, d_kv=32, d_ff=400, num_layers=2, num_heads=5, decoder_start_token_id=0,
                   use_cache=False)
    model = T5ForConditionalGeneration(cfg).to("cuda").train()
    optimizer = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False, warmup_init=False,
                          beta1=0.9)
    AdafactorSchedule  # noqa: B018  imported as in the docs, not used
    record.watch([model], [optimizer])
    for step in range(3):
        batch = {"input_ids": torch.randint(800, (4, 24)), "labels": torch.randint(800, (4, 16))}
        batch = {k: v.cuda() for k, v in batch.items()}
        out = model(**batch)
        record.take("fwd", step, batch)
        out.loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        record.take("step", step, batch)
        optimizer.zero_grad()
        del out


def accelerated_lion(record):
    """accelerate.prepare() round an optimizer from a gist."""
    import accelerate

    class Lion(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), wd=0.0):
            super().__init__(params, dict(lr=lr, betas=betas, wd=wd))

        def _buffers(self, group):
            return [self.state[p].setdefault("exp_avg", torch.zeros_like(p)) for p in group["params"] if p.grad is not None]

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                for p, m in zip(params, self._buffers(group)):
                    update = m.clone().mul_(group["betas"][0]).add_(p.grad, alpha=1 - group["betas"][0]).sign_()
                    p.add_(update, alpha=-group["lr"])
                    m.lerp_(p.grad, 1 - group["betas"][1])

    accelerator = accelerate.Accelerator()
    dataset = torch.utils.data.TensorDataset(torch.randn(48 * 5, 256), torch.zeros(48 * 5, dtype=torch.long))
    loader = torch.utils.data.DataLoader(dataset, batch_size=48, shuffle=True)
    model = Net(h=448)
    model, optimizer, loader = accelerator.prepare(model, Lion(model.parameters()), loader)
    record.watch([model], [optimizer.optimizer])
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        record.take("fwd", i, (x, y))
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        record.take("bwd", i, (x, y))
        optimizer.step()
        record.take("step", i, (x, y))
        optimizer.zero_grad()


# --- State in memory that is filled after it was made, as DTensor's zeros_like makes it in PyTorch 2.6 ------------------

class FilledLater(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), begins=0):
        super().__init__(params, dict(lr=lr, betas=betas, begins=begins))
        self.calls = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.calls += 1
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.empty_like(p).zero_()
                if "exp_avg_sq" not in state and self.calls > group["begins"]:
                    state["exp_avg_sq"] = torch.empty(p.shape, device=p.device).fill_(0)
                state["exp_avg"].lerp_(p.grad, 1 - group["betas"][0])
                update = state["exp_avg"]
                if "exp_avg_sq" in state:
                    state["exp_avg_sq"].mul_(group["betas"][1]).addcmul_(p.grad, p.grad, value=1 - group["betas"][1])
                    update = update / (state["exp_avg_sq"].sqrt() + 1e-8)
                p.add_(update, alpha=-group["lr"])


def state_filled_later(record, begins=0, micro=1):
    model = Net(h=416).cuda()
    opt = FilledLater(model.parameters(), begins=begins)
    record.watch([model], [opt])
    take_steps(record, model, opt, micro)


def state_filled_later_accumulating(record):
    state_filled_later(record, begins=2, micro=2)
