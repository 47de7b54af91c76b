"""Ways to train that differ in what is allocated when. What differs only in model or optimizer shares the loop of train(); the
others show their own."""
import copy
import types

import torch
import torch.utils.checkpoint
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from nets import STEPS, begin_process_group, end_process_group, make_batch, make_token_batch, small_net, train


def sgd_zero_grad_before_backward(record):
    """No optimizer state, and the gradients of a step live until after the next forward."""
    model = small_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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


def gradients_set_to_zero(record):
    """Gradients stay where they were in the first step, zeroed in place."""
    model = small_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))


def one_step_of_momentum(record):
    """SGD's momentum starts as a clone of the gradient, and here nothing ever reads it."""
    model = small_net().cuda()
    train(record, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), steps=1)


def accumulate(record, optimizer_class=torch.optim.AdamW):
    """Gradient accumulation: three backwards for each optimizer step."""
    model = small_net().cuda()
    optimizer = optimizer_class(model.parameters(), lr=0.1)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        for _ in range(3):
            inputs, targets = make_batch()
            loss = functional.cross_entropy(model(inputs), targets) / 3
            record.take("fwd", step, (inputs, targets))
            loss.backward()
            record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def accumulate_without_state(record):
    """Gradient accumulation with plain SGD: no state tells where the optimizer steps."""
    accumulate(record, torch.optim.SGD)


class LowRankLinear(nn.Module):
    def __init__(self, inputs, outputs, rank=8):
        super().__init__()
        self.base = nn.Linear(inputs, outputs).requires_grad_(False)
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)

    def forward(self, hidden):
        return self.base(hidden) + self.up(self.down(hidden))


def lora(record):
    """Most parameters are frozen: never a gradient, never a state."""
    model = nn.Sequential(
        nn.Embedding(1000, 256).requires_grad_(False),
        LowRankLinear(256, 256),
        nn.GELU(),
        LowRankLinear(256, 256),
        nn.LayerNorm(256).requires_grad_(False),
        LowRankLinear(256, 1000),
        nn.Flatten(0, 1),
    ).cuda()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    train(record, model, torch.optim.AdamW(trained), make_token_batch)


def gan(record, optimizer_class=torch.optim.Adam):
    """Two models and two optimizers in turn; the generator's backward fills the discriminator's gradients too."""
    generator = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
    discriminator = nn.Sequential(nn.Linear(256, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)).cuda()
    generator_optimizer = optimizer_class(generator.parameters(), lr=0.1)
    discriminator_optimizer = optimizer_class(discriminator.parameters(), lr=0.1)
    record.watch([generator, discriminator], [generator_optimizer, discriminator_optimizer])
    judge = functional.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(32, 1, device="cuda"), torch.zeros(32, 1, device="cuda")
    for step in range(STEPS):
        real, noise = torch.randn(32, 256).to("cuda"), torch.randn(32, 64, device="cuda")
        inputs = (ones, zeros, real, noise)
        fake = generator(noise)
        discriminator_optimizer.zero_grad()
        loss = judge(discriminator(real), ones) + judge(discriminator(fake.detach()), zeros)
        record.take("discriminator_fwd", step, inputs)
        loss.backward()
        record.take("discriminator_bwd", step, inputs)
        discriminator_optimizer.step()
        record.take("discriminator_step", step, inputs)
        generator_optimizer.zero_grad()
        generator_loss = judge(discriminator(fake), ones)
        generator_loss.backward()
        record.take("generator_bwd", step, inputs)
        generator_optimizer.step()
        record.take("generator_step", step, inputs)


def gan_without_state(record):
    """As gan, with plain SGD."""
    gan(record, torch.optim.SGD)


def no_module(record):
    """Parameters, loop and momentum by hand: no nn.Module and no torch.optim to be seen in any stack."""
    shapes = ((256, 512), (512,), (512, 32), (32,))
    parameters = [torch.randn(shape, device="cuda").mul_(0.02).requires_grad_() for shape in shapes]
    momenta = [torch.zeros_like(parameter) for parameter in parameters]
    record.watch(
        [types.SimpleNamespace(parameters=lambda: parameters, buffers=lambda: [])],
        [types.SimpleNamespace(state={i: {"momentum": momentum} for i, momentum in enumerate(momenta)})],
    )
    first, first_bias, second, second_bias = parameters
    for step in range(STEPS):
        inputs, targets = make_batch()
        hidden = torch.relu(inputs @ first + first_bias)
        loss = functional.cross_entropy(hidden @ second + second_bias, targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        with torch.no_grad():
            for parameter, momentum in zip(parameters, momenta):
                momentum.mul_(0.9).add_(parameter.grad)
                parameter.sub_(momentum, alpha=0.1)
        record.take("step", step, (inputs, targets))
        for parameter in parameters:
            parameter.grad = None


class Lion(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                update = (state["momentum"] * 0.9 + parameter.grad * 0.1).sign_()
                parameter.add_(update, alpha=-group["lr"])
                state["momentum"].mul_(0.99).add_(parameter.grad, alpha=0.01)


def own_optimizer(record):
    """An optimizer that is not torch's, with temporaries in its step."""
    model = small_net().cuda()
    train(record, model, Lion(model.parameters()))


def one_batch_for_all(record):
    """Inputs made on the device before anything else, as parameters are."""
    inputs, targets = torch.randn(64, 256, device="cuda"), torch.zeros(64, dtype=torch.long, device="cuda")
    model = small_net().cuda()
    train(record, model, torch.optim.Adam(model.parameters()), lambda: (inputs, targets))


def made_on_device(record):
    """Parameters initialized on the device: no copy from the host marks them."""
    with torch.device("cuda"):
        model = small_net()
    train(record, model, torch.optim.Adam(model.parameters()))


def with_evaluation(record):
    """Passes without gradients before the first step and between steps."""
    model = small_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def evaluate():
        model.eval()
        with torch.no_grad(), record.free_choice():
            for _ in range(3):
                inputs, targets = make_batch()
                functional.cross_entropy(model(inputs), targets)
        model.train()

    evaluate()
    for _ in range(2):
        train(record, model, optimizer, steps=2)
        evaluate()


def gradient_scaler(record):
    """float16 with a scaler: scale tensors, gradients checked, clipped and unscaled between backward and step."""
    model = small_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for step in range(STEPS):
        record.watch([model], [optimizer], [scaler._scale, scaler._growth_tracker])
        inputs, targets = make_batch()
        with torch.autocast("cuda", torch.float16):
            loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        scaler.scale(loss).backward()
        record.take("bwd", step, (inputs, targets))
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def gradient_penalty(record):
    """A backward inside forward: the loss depends on the gradient of the inputs."""
    model = nn.Sequential(nn.Linear(256, 512), nn.Softplus(), nn.Linear(512, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs = torch.randn(32, 256).to("cuda").requires_grad_()
        outputs = model(inputs)
        (slope,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
        loss = outputs.mean() + slope.square().sum()
        record.take("fwd", step, (inputs,), (slope,))
        loss.backward()
        record.take("bwd", step, (inputs,), (slope,))
        optimizer.step()
        record.take("step", step, (inputs,), (slope,))
        optimizer.zero_grad()


def moving_average(record):
    """A second model that follows the first in place (EMA), and never sees a forward."""
    model = small_net().cuda()
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model, average], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        with torch.no_grad():
            for follower, leader in zip(average.parameters(), model.parameters()):
                follower.lerp_(leader, 0.1)
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def distillation(record):
    """A teacher that is only ever used without gradients."""
    teacher, model = small_net().cuda().eval(), small_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    record.watch([teacher, model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        with torch.no_grad(), record.free_choice():
            wanted = teacher(inputs)
        loss = functional.mse_loss(model(inputs), wanted)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def trained_twice(record):
    """A model is trained and dropped, and its memory is used for the next one."""
    for _ in range(2):
        model = small_net().cuda()
        train(record, model, torch.optim.Adam(model.parameters()))
        record.watch([])


def killed_in_backward(record, steps=STEPS):
    """Dies in the middle of the last backward."""
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    train(record, model, optimizer, steps=steps - 1)
    record.watch([model], [optimizer])
    inputs, targets = make_batch()
    loss = functional.cross_entropy(model(inputs), targets)
    record.take("fwd", steps - 1, (inputs, targets))

    def halfway(gradient):
        record.take("within_bwd", steps - 1, (inputs, targets))
        record.die()

    model[2].weight.register_hook(halfway)
    loss.backward()


def killed_in_first_backward(record):
    """Dies in the middle of the only backward: no step is there to learn from."""
    killed_in_backward(record, steps=1)


def killed_in_first_forward(record):
    """Dies after the only forward: parameters no gradient was ever made for."""
    model = small_net().cuda()
    record.watch([model])
    inputs, targets = make_batch()
    outputs = model(inputs)
    record.take("fwd", 0, (inputs, targets))
    record.die()
    del outputs  # alive until here


def out_of_memory(record):
    """The last forward asks for more than there is, and the program goes on."""
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    train(record, model, optimizer)
    inputs, targets = make_batch()
    outputs = model(inputs)
    record.take("fwd", STEPS, (inputs, targets))
    try:
        torch.empty(1 << 40, device="cuda")
    except torch.OutOfMemoryError:
        record.take("oom", STEPS, (inputs, targets))
    del outputs  # alive until here


def backward_on_same_thread(record):
    """Autograd without a thread of its own: backward's events come from the thread that calls it."""
    torch.autograd.set_multithreading_enabled(False)
    model = small_net().cuda()
    train(record, model, torch.optim.Adam(model.parameters()))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        return values * values

    @staticmethod
    def backward(context, gradient):
        (values,) = context.saved_tensors
        return 2 * values * gradient


class OwnFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(256, 512)
        self.second = nn.Parameter(torch.randn(512, 32))
        self.register_buffer("scale", torch.ones(512))

    def forward(self, inputs):
        return Square.apply(self.first(inputs) * self.scale) @ self.second


def own_function(record):
    """Python inside backward."""
    model = OwnFunction().cuda()
    train(record, model, torch.optim.AdamW(model.parameters()))


def checkpoint_with_amp(record):
    """Gradient checkpointing and bfloat16: forward is run again within backward, with its casts."""
    model = small_net().cuda()

    def forward(inputs):
        with torch.autocast("cuda", torch.bfloat16):
            hidden = checkpoint(model[:2], inputs, use_reentrant=False)
            hidden = checkpoint(model[2:5], hidden, use_reentrant=False)
            return model[5](hidden)

    train(record, model, torch.optim.AdamW(model.parameters()), forward=forward)


def checkpoint_reentrant(record):
    """The older checkpointing: a backward inside backward, and inputs that have gradients."""
    model = small_net().cuda()

    def forward(inputs):
        hidden = checkpoint(model[:2], inputs.requires_grad_(), use_reentrant=True)
        hidden = checkpoint(model[2:5], hidden, use_reentrant=True)
        return model[5](hidden)

    train(record, model, torch.optim.Adam(model.parameters()), forward=forward)


def half_precision_model(record):
    """Parameters converted on the device: the originals' memory is free again before training starts."""
    model = small_net().cuda().bfloat16()

    def batch():
        inputs, targets = make_batch()
        return inputs.bfloat16(), targets

    train(record, model, torch.optim.RMSprop(model.parameters(), momentum=0.5), batch)


def lbfgs(record):
    """An optimizer that runs forward and backward itself, several times in a step."""
    model = small_net().cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()

        def closure():
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), targets)
            loss.backward()
            record.note("gradient", [parameter.grad for parameter in model.parameters()])
            return loss

        optimizer.step(closure)
        record.take("step", step, (inputs, targets))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64 * STEPS

    def __getitem__(self, index):
        return torch.randn(256), 0


def data_loader(record):
    """Batches from a worker process, through pinned memory that another thread fills."""
    batches = iter(torch.utils.data.DataLoader(Rows(), 64, num_workers=1, pin_memory=True))
    model = small_net().cuda()
    train(
        record,
        model,
        torch.optim.Adam(model.parameters()),
        lambda: tuple(tensor.to("cuda", non_blocking=True) for tensor in next(batches)),
    )


def fused_optimizer(record):
    """One kernel for the whole step, and step counters on the device."""
    model = small_net().cuda()
    train(record, model, torch.optim.AdamW(model.parameters(), fused=True))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.layers = nn.LSTM(64, 128, 2, batch_first=True)
        self.head = nn.Linear(128, 100)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens))[0]).flatten(0, 1)


def recurrent(record):
    """Weights used once per time step, and an optimizer whose state is there before the first step."""
    model = Recurrent().cuda()
    train(record, model, torch.optim.Adagrad(model.parameters()), make_token_batch)


def leaked_graphs(record):
    """A sum of losses keeps every step's graph and its activations alive."""
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    total = 0
    for step in range(5):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        total = total + loss
        record.take("fwd", step, (inputs, targets))
        loss.backward(retain_graph=True)
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def scheduler_and_metrics(record):
    """A learning rate schedule, clipping, and metrics that stay on the device from step to step."""
    model = small_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    record.watch([model], [optimizer])
    total, accuracies = torch.zeros((), device="cuda"), []
    for step in range(5):
        inputs, targets = make_batch()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()
        with torch.no_grad(), record.free_choice():
            total = total + loss.detach()
            accuracies.append((outputs.argmax(1) == targets).float().mean())


def distributed(record):
    """DistributedDataParallel over one process: gradients are copied to its buckets, and back."""
    begin_process_group()
    model = small_net().cuda()
    wrapped = nn.parallel.DistributedDataParallel(model)

    def reduce(state, bucket):
        record.note("communication", [bucket.buffer()])
        return allreduce_hook(state, bucket)

    wrapped.register_comm_hook(None, reduce)
    train(record, model, torch.optim.Adam(model.parameters()), forward=wrapped)
    end_process_group()
