"""Optimizers that people copy into their repositories, wrap round others or write without torch.optim (borrowed.py): state in
lists, nested containers and objects of their own, made by helpers of every form."""
import types

import torch
from torch import nn
from torch.nn import functional

from nets import (
    STEPS, begin_process_group, end_process_group, make_batch, make_token_batch, small_net, square_net, step_of_loop, train)
from training.borrowed import (
    Adafactor,
    FP16_Optimizer,
    GradScaledOptimizer,
    MomentumUpdater,
    MuonWithAuxAdam,
    SAM,
    ScheduleFree,
    Shampoo,
    Soap,
    apply_updates,
    init_opt_state,
)


def held(values):
    """What Record.watch takes for an optimizer: VALUES() gives its state now."""

    class Held:
        @property
        def state(self):
            return {"all": values()}

    return Held()


def soap(record):
    """Preconditioners in lists under each parameter's state, made and renewed by methods."""
    model = square_net().cuda()
    train(record, model, Soap(model.parameters()), steps=5)


def shampoo(record):
    """State that is not in `state`: a list of momenta, and objects by number that hold lists."""
    model = square_net().cuda()
    optimizer = Shampoo(model.parameters())
    record.watch([model], [held(lambda: [optimizer.momenta, [
        [*block.statistics, *block.inverses] for block in optimizer.blocks.values()]])])
    for step in range(5):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        step_of_loop(record, step, (inputs, targets), loss, optimizer)


def muon(record):
    """Two kinds of update in one optimizer, each a function of its own."""
    model = square_net().cuda()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() < 2]
    train(record, model, MuonWithAuxAdam([{"params": matrices, "use_muon": True}, {"params": rest, "use_muon": False}]))


def adafactor(record):
    """State in a dict under each parameter's state."""
    model = square_net().cuda()
    train(record, model, Adafactor(model.parameters()))


def adafactor_with_closure(record):
    """The same with a closure: forward and backward run beneath its step."""
    model = square_net().cuda()
    optimizer = Adafactor(model.parameters())
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()

        def closure():
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), targets)
            record.take("fwd", step, (inputs, targets))
            loss.backward()
            record.take("bwd", step, (inputs, targets))
            return loss

        optimizer.step(closure)
        record.take("step", step, (inputs, targets))


def schedule_free(record):
    """State that is a copy of the weights."""
    model = small_net().cuda()
    train(record, model, ScheduleFree(model.parameters()))


def functional_adam(record):
    """In the manner of optax: state is a value that each update makes anew."""
    model = small_net().cuda()
    params = dict(model.named_parameters())
    state = init_opt_state(params)
    record.watch([model], [held(lambda: [list(state.mu.values()), list(state.nu.values())])])
    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        with torch.no_grad():
            apply_updates(params, {key: parameter.grad for key, parameter in params.items()}, state)
        record.take("step", step, (inputs, targets))
        model.zero_grad()


def momentum_updater(record):
    """An object with lists in a dict, whose methods are called apply and clear."""
    model = small_net().cuda()
    updater = MomentumUpdater(model)
    record.watch([model], [held(lambda: list(updater.velocity.values()))])
    for step in range(4):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        updater.apply()
        record.take("step", step, (inputs, targets))
        updater.clear()


def fp16_optimizer(record):
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 32)).cuda().half()
    optimizer = FP16_Optimizer(torch.optim.Adam(model.parameters(), lr=1e-3))
    masters = types.SimpleNamespace(parameters=lambda: optimizer.fp32_from_fp16_groups[0], buffers=lambda: [])
    record.watch([model, masters], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        inputs = inputs.half()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        optimizer.zero_grad()
        optimizer.backward(loss)
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))


def sam_with_closure(record):
    """Its step calls the closure between two halves; the copies of the weights become the weights."""
    model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 32)).cuda()
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    record.watch([model], [optimizer, optimizer.base_optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()

        def closure():
            loss = functional.cross_entropy(model(inputs), targets)
            record.take("second_fwd", step, (inputs, targets))
            loss.backward()
            return loss

        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step(closure)
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def zero_redundancy(record):
    """ZeroRedundancyOptimizer, whose optimizer is an attribute."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    begin_process_group()
    model = small_net().cuda()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    record.watch([model], [optimizer.optim])
    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        step_of_loop(record, step, (inputs, targets), loss, optimizer)
    end_process_group()


def trainers_wrapper(record):
    """The trainer holds the wrapper alone; the model is of tokens."""
    model = nn.Sequential(nn.Embedding(1000, 256), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1000), nn.Flatten(0, 1)).cuda()
    train(record, model, GradScaledOptimizer(torch.optim.Adam(model.parameters())), make_token_batch)


def replaced_in_turn(record):
    """Weights and momentum in dicts, without a module; both are made anew, one parameter after the other."""
    theta = {"w1": torch.randn(256, 512, device="cuda") * 0.05, "b1": torch.zeros(512, device="cuda"),
             "w2": torch.randn(512, 512, device="cuda") * 0.05, "w3": torch.randn(512, 32, device="cuda") * 0.05}
    theta = {name: value.requires_grad_() for name, value in theta.items()}
    momentum = {name: torch.zeros_like(value) for name, value in theta.items()}
    record.hold("parameter", lambda: theta)
    record.hold("optimizer_state", lambda: momentum)
    for step in range(4):
        inputs, targets = make_batch()
        hidden = torch.tanh(torch.tanh(inputs @ theta["w1"] + theta["b1"]) @ theta["w2"])
        loss = functional.cross_entropy(hidden @ theta["w3"], targets)
        record.take("fwd", step, (inputs, targets))
        slopes = dict(zip(theta, torch.autograd.grad(loss, list(theta.values()))))
        record.take("bwd", step, (inputs, targets), list(slopes.values()))
        del hidden, loss
        for name in theta:
            with torch.no_grad():
                momentum[name] = 0.9 * momentum[name] + slopes[name]
                theta[name] = (theta[name] - 0.1 * momentum[name]).requires_grad_()
        del slopes
        record.take("step", step, (inputs, targets))


class World:
    """What an agent plays in, on the device: its step is none of an optimizer."""

    def __init__(self, players=4096):
        self.places = torch.zeros(players, 256, device="cuda")

    def step(self, actions):
        self.places = self.places * 0.99 + functional.pad(actions, (0, 256 - actions.shape[1]))
        return self.places


def played_world(record):
    """An agent's steps, then one of the optimizer. What the world computes is input or activation: autograd keeps it."""
    policy = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 32)).cuda()
    optimizer = torch.optim.Adam(policy.parameters())
    record.watch([policy], [optimizer])
    world = World()
    seen = world.places
    for step in range(STEPS):
        path = []
        for _ in range(2):
            with torch.no_grad(), record.free_choice():
                actions = policy(seen)
                seen = world.step(actions)
                path.append(seen)
        loss = sum(policy(place).square().mean() for place in path)
        record.take("fwd", step)
        loss.backward()
        record.take("bwd", step)
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step)
