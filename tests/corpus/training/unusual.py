"""Ways to train that rules over sizes, places and passes took for something else."""
import copy

import torch
from torch import nn
from torch.nn import functional

import models
from nets import STEPS, make_batch, plain_net, small_net, step_of_loop, train


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.leader, self.follower = plain_net(), plain_net().requires_grad_(False)
        self.register_buffer("queue", torch.randn(32, 4096))

    def forward(self, first, second):
        queries = self.leader(first)
        with torch.no_grad():
            for follower, leader in zip(self.follower.parameters(), self.leader.parameters()):
                follower.data = follower.data * 0.999 + leader.data * 0.001
            keys = self.follower(second)
        own = (queries * keys).sum(1, keepdim=True)
        outputs = torch.cat([own, queries @ self.queue.clone()], 1)
        self.queue[:, : len(keys)] = keys.T
        return outputs


def momentum_contrast(record):
    """A second encoder whose parameters are other tensors after each forward, and a queue of keys (MoCo)."""
    model = Contrast().cuda()
    optimizer = torch.optim.SGD(model.leader.parameters(), lr=0.1, momentum=0.9)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        first, targets = make_batch()
        second, _ = make_batch()
        loss = functional.cross_entropy(model(first, second), targets)
        step_of_loop(record, step, (first, second, targets), loss, optimizer)


class Memory:
    def __init__(self, rows=4096):
        self.states, self.wanted = torch.zeros(rows, 256, device="cuda"), torch.zeros(rows, 32, device="cuda")

    def sample(self, rows=128):
        (index,) = models.on_device(torch.arange(rows))
        return self.states[index], self.wanted[index]


def replay_buffer(record):
    """A memory on the device, from which batches are drawn; actions are chosen without gradients (DQN)."""
    model, target = plain_net().cuda(), plain_net().cuda().requires_grad_(False)
    memory = Memory()
    optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
    record.watch([model, target], [optimizer])
    for step in range(STEPS):
        state, _ = make_batch(32)
        with torch.no_grad(), record.free_choice():
            memory.wanted[:32] = model(state)
        memory.states[:32] = state
        inputs, wanted = memory.sample()
        with torch.no_grad():
            wanted = wanted + target(inputs)
        loss = functional.mse_loss(model(inputs), wanted)
        step_of_loop(record, step, (state, inputs), loss, optimizer)


def data_on_device(record):
    """All data is on the device, as large as a weight by chance, and batches are picked from it by index."""
    data, labels = models.on_device(torch.randn(1024, 256), torch.zeros(1024, dtype=torch.long))
    model = small_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    record.watch([model], [optimizer])
    for step in range(4):
        (index,) = models.on_device(torch.arange(128))
        inputs, targets = data[index], labels[index]
        loss = functional.cross_entropy(model(inputs), targets)
        step_of_loop(record, step, (data, labels, index, inputs, targets), loss, optimizer)


def optimizer_in_backward(record):
    """An optimizer for each parameter steps as soon as its gradient is there, which is dropped then."""
    model = plain_net().cuda()
    optimizers = {parameter: torch.optim.Adam([parameter], foreach=False) for parameter in model.parameters()}

    def step_now(parameter):
        record.note("gradient", [parameter.grad])
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_now)
    record.watch([model], list(optimizers.values()))
    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))


class PlainAdam:
    """No torch.optim; its state is made when it is first needed."""

    def __init__(self, parameters):
        self.parameters, self.state = list(parameters), {}

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        for parameter in self.parameters:
            if parameter not in self.state:
                self.state[parameter] = {"first": torch.zeros_like(parameter), "second": torch.zeros_like(parameter)}
            first, second = self.state[parameter].values()
            first.lerp_(parameter.grad, 0.1)
            second.lerp_(parameter.grad.square(), 0.001)
            parameter.sub_(first / (second.sqrt() + 1e-8), alpha=0.001)


def optimizer_from_scratch(record):
    """A class of the script's own is the optimizer."""
    model = small_net().cuda()
    train(record, model, PlainAdam(model.parameters()))


def flat_gradients(record):
    """Every .grad is a view of one buffer, which is there before the first backward."""
    model = plain_net().cuda()
    flat, start = torch.zeros(sum(parameter.numel() for parameter in model.parameters()), device="cuda"), 0
    for parameter in model.parameters():
        parameter.grad = flat[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    for step in range(STEPS):
        flat.zero_()
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))


def accumulated_elsewhere(record):
    """Gradients are added up in buffers of the script's own, and dropped after each of two passes for a step."""
    model = plain_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    sums = [torch.zeros_like(parameter) for parameter in model.parameters()]
    record.watch([model], [optimizer])
    for step in range(STEPS):
        for _ in range(2):
            inputs, targets = make_batch()
            loss = functional.cross_entropy(model(inputs), targets)
            record.take("fwd", step, (inputs, targets), sums)
            loss.backward()
            record.take("bwd", step, (inputs, targets), sums)
            for total, parameter in zip(sums, model.parameters()):
                total.add_(parameter.grad)
                parameter.grad = None
        for total, parameter in zip(sums, model.parameters()):
            parameter.grad = total
        optimizer.step()
        record.take("step", step, (inputs, targets), sums)
        optimizer.zero_grad()
        for total in sums:
            total.zero_()


class Lookahead(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner, self.count = inner, 0
        super().__init__(inner.param_groups, {})

    def step(self):
        self.inner.step()
        self.count += 1
        for group in self.param_groups if self.count % 2 == 0 else ():
            for parameter in group["params"]:
                slow = self.state[parameter].setdefault("slow", parameter.detach().clone())
                slow.lerp_(parameter.detach(), 0.5)
                parameter.data.copy_(slow)


def lookahead(record):
    """An optimizer round another, which works in every second step only."""
    model = small_net().cuda()
    optimizer = Lookahead(torch.optim.AdamW(model.parameters()))
    record.watch([model], [optimizer, optimizer.inner])
    for step in range(5):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        step_of_loop(record, step, (inputs, targets), loss, optimizer)


def sampled_from_average(record):
    """The average of a model, which training never calls, runs by itself at the end (diffusion)."""
    model = plain_net().cuda()
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())
    train(record, model, optimizer)
    record.watch([model, average], [optimizer])
    with torch.no_grad(), record.free_choice():
        noise = torch.randn(64, 256, device="cuda")
        for _ in range(3):
            noise = torch.cat([average(noise)] * 8, 1)
        record.take("sample", STEPS - 1)
