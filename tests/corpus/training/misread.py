"""More ways to train that are easily misread."""
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import models
from nets import STEPS, make_batch, make_token_batch, small_net, train


def inplace_relu(record):
    """The activation is written over what made it: one block, two operators."""
    model = nn.Sequential(
        nn.Linear(256, 512), nn.ReLU(inplace=True), nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Linear(512, 32)
    ).cuda()
    train(record, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def foreach_optimizer(record):
    """Lists of tensors at once: the step's temporaries are as large as all parameters together."""
    model = small_net().cuda()
    train(record, model, torch.optim.Adam(model.parameters(), foreach=True, amsgrad=True))


def foreach_without_state(record):
    """Weight decay makes a temporary of every gradient, and no state is left behind."""
    model = small_net().cuda()
    train(record, model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=True, weight_decay=0.1))


def half_model(record):
    """model.half() on the device, and a master copy in float32 that a hand-written step keeps."""
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 32)).cuda().half()
    masters = [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1, momentum=0.9)
    keeper = nn.ParameterList(masters)
    record.watch([model, keeper], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        inputs = inputs.half()
        loss = functional.cross_entropy(model(inputs).float(), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        for master, parameter in zip(masters, model.parameters()):
            master.grad = parameter.grad.float()
        optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters()):
                parameter.copy_(master)
        record.take("step", step, (inputs, targets))
        model.zero_grad()
        optimizer.zero_grad()


def loaded_state(record):
    """Model and optimizer go on from a checkpoint that is read to the device, and dropped."""
    first = small_net()
    other = torch.optim.Adam(first.parameters())
    functional.cross_entropy(first(torch.randn(64, 256)), torch.zeros(64, dtype=torch.long)).backward()
    other.step()
    file = f"{record.path}.checkpoint"
    torch.save({"model": first.state_dict(), "optimizer": other.state_dict()}, file)
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loaded = torch.load(file, map_location="cuda")
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    del loaded
    train(record, model, optimizer)


def assigned_state(record):
    """load_state_dict(assign=True): the tensors that were read become the parameters."""
    file = f"{record.path}.checkpoint"
    torch.save(small_net().state_dict(), file)
    with torch.device("meta"):
        model = small_net()
    model.load_state_dict(torch.load(file, map_location="cuda"), assign=True)
    train(record, model, torch.optim.AdamW(model.parameters()))


def moved_between_devices(record):
    """To the device, trained, to the host, and back: other blocks are the parameters then."""
    model = small_net().cuda()
    train(record, model, torch.optim.SGD(model.parameters(), lr=0.1), steps=2)
    record.watch([])
    model.cpu()
    record.take("on_host", 1)
    model.cuda()
    train(record, model, torch.optim.Adam(model.parameters()))


class SlicedOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(256, 3 * 512)
        self.head = nn.Linear(512, 32)

    def forward(self, inputs):
        first, second, third = self.body(inputs).chunk(3, dim=1)
        return self.head(functional.silu(first) * second + third)


def views_kept(record):
    """Slices of a batch, of outputs and of a parameter, which keep all of it alive."""
    model = SlicedOutputs().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    large = torch.randn(STEPS * 64, 256).to("cuda")
    corner, kept = model.body.weight.detach()[:4, :4], []
    for step in range(STEPS):
        inputs = large[step * 64 : (step + 1) * 64]
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, torch.zeros(64, dtype=torch.long, device="cuda"))
        kept.append(outputs.detach()[:2])
        record.take("fwd", step, (inputs,))
        loss.backward()
        record.take("bwd", step, (inputs,))
        optimizer.step()
        record.take("step", step, (inputs,))
        optimizer.zero_grad()
    del corner


def average_of_swa_utils(record):
    """EMA as torch.optim.swa_utils does it: a deep copy that follows, with a counter on the device."""
    model = small_net().cuda()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.AdamW(model.parameters())
    record.watch([model, average], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        average.update_parameters(model)
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def evaluation_between_steps(record):
    """Validation under no_grad after every step, while gradients are dropped later."""
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        model.eval()
        with torch.no_grad(), record.free_choice():
            held_out, labels = make_batch(128)
            outputs = model(held_out)
            correct = (outputs.argmax(1) == labels).sum()
            record.take("eval", step, (inputs, targets, held_out, labels))
        del held_out, labels, outputs, correct
        model.train()


def evaluation_with_gradients(record):
    """Validation that forgot no_grad: graphs are made, and dropped without a backward."""
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        train(record, model, optimizer)
        for _ in range(2):
            inputs, targets = make_batch()
            loss = functional.cross_entropy(model(inputs), targets)
            record.take("eval", epoch, (inputs, targets))
            del loss


def checkpoint_reentrant_blocks(record):
    """Every layer checkpointed the older way, with outputs that are kept."""
    model = models.Gpt(layers=3, checkpoint=False).cuda()

    def forward(tokens):
        hidden = model.tokens(tokens) + model.positions(model.order[: tokens.shape[1]])
        for block in model.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=True)
        return model.head(model.norm(hidden)).flatten(0, 1)

    train(record, model, torch.optim.AdamW(model.parameters()), make_token_batch, forward)


def two_losses(record):
    """Two backward passes over one graph, the first of which keeps it."""
    body = nn.Sequential(nn.Linear(256, 512), nn.GELU()).cuda()
    heads = nn.ModuleList(nn.Linear(512, 32) for _ in range(2)).cuda()
    parameters = [*body.parameters(), *heads.parameters()]
    optimizer = torch.optim.Adam(parameters)
    record.watch([body, heads], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        hidden = body(inputs)
        losses = [functional.cross_entropy(head(hidden), targets) for head in heads]
        record.take("fwd", step, (inputs, targets))
        losses[0].backward(retain_graph=True)
        record.take("first_bwd", step, (inputs, targets))
        losses[1].backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def forward_after_last_step(record):
    """A forward follows the last optimizer step: no step of its own."""
    model = small_net().cuda()
    train(record, model, torch.optim.Adam(model.parameters()))
    model.eval()
    with torch.no_grad(), record.free_choice():
        inputs, targets = make_batch()
        outputs = model(inputs)
        record.take("out", STEPS - 1, (inputs, targets))
    del outputs


def lbfgs_full_batch(record):
    """LBFGS with its line search over one batch: nothing is allocated between two steps."""
    model = nn.Sequential(nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 32)).cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    record.watch([model], [optimizer])
    inputs, targets = make_batch()

    def closure():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        record.note("gradient", [parameter.grad for parameter in model.parameters()])
        return loss

    for step in range(STEPS):
        optimizer.step(closure)
        record.take("step", step, (inputs, targets))


def sharpness_aware(record):
    """Two forwards and backwards for a step, weights moved in between (SAM), by a closure-free optimizer pair."""
    model = small_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        functional.cross_entropy(model(inputs), targets).backward()
        record.take("first_bwd", step, (inputs, targets))
        with torch.no_grad():
            moves = [parameter.grad * 0.05 for parameter in model.parameters()]
            for parameter, move in zip(model.parameters(), moves):
                parameter.add_(move)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves):
                parameter.sub_(move)
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()
