"""Gradients that are not one tensor for each parameter, made anew by each backward: views, sums, lists, second orders."""
import contextlib
import copy

import torch
from torch import func, nn
from torch.nn import functional

import models
from nets import STEPS, begin_process_group, end_process_group, make_batch, small_net


def smooth_net(width=384, outputs=32):
    return nn.Sequential(nn.Linear(256, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs))


class Held:
    """To be watched: tensors that are parameters, and of no module."""

    def __init__(self, tensors):
        self.tensors = list(tensors)

    def parameters(self):
        return self.tensors

    def buffers(self):
        return []


class Trainer:
    """A loop over micro-batches round DistributedDataParallel, as many repositories have one."""

    def __init__(self, record, micro_batches=3, **options):
        self.record, self.micro_batches = record, micro_batches
        begin_process_group()
        self.model = nn.parallel.DistributedDataParallel(small_net().cuda(), device_ids=[0], **options)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        record.watch([self.model], [self.optimizer])

    def note_buckets(self):
        """What is reduced, beside the gradients."""
        def reduce(record, bucket):
            record.note("communication", [bucket.buffer()])
            return torch.distributed.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda future: future.value()[0])

        self.model.register_comm_hook(self.record, reduce)
        return self

    def micro_batch(self, step, last):
        inputs, targets = make_batch()
        with contextlib.nullcontext() if last else self.model.no_sync():
            loss = functional.cross_entropy(self.model(inputs), targets) / self.micro_batches
            self.record.take("fwd", step, (inputs, targets))
            loss.backward()
        self.record.take("bwd", step, (inputs, targets))

    def fit(self):
        for step in range(STEPS):
            for index in range(self.micro_batches):
                self.micro_batch(step, last=index == self.micro_batches - 1)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.record.take("step", step)
            self.optimizer.zero_grad(set_to_none=True)
        end_process_group()


def views_without_sync(record):
    """Buckets are the gradients, but passes under no_sync make gradients of their own first."""
    Trainer(record, gradient_as_bucket_view=True).fit()


def buckets_without_sync(record):
    """Gradients accumulate beside the buckets that the last pass of a step fills."""
    Trainer(record).note_buckets().fit()


def static_graph_views(record):
    """static_graph rebuilds its buckets after the first step; the gradients are views of them."""
    Trainer(record, micro_batches=1, gradient_as_bucket_view=True, static_graph=True).fit()


def views_zeroed_in_place(record):
    """Gradients as views that are never dropped: zero_grad(set_to_none=False), two parameters unused."""
    begin_process_group()
    inner = small_net().cuda()
    inner.spare = nn.Linear(256, 256).cuda()
    inner.forward = lambda hidden: nn.Sequential.forward(inner[:6], hidden)
    model = nn.parallel.DistributedDataParallel(inner, gradient_as_bucket_view=True, find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad(set_to_none=False)
    end_process_group()


class FlatHalf:
    """One flat fp16 tensor under all weights, one flat fp32 copy that the optimizer trains (as in Megatron, apex)."""

    def __init__(self, model, **options):
        self.parameters = list(model.parameters())
        self.flat = torch.cat([parameter.detach().reshape(-1).half() for parameter in self.parameters])
        start = 0
        for parameter in self.parameters:
            parameter.data = self.flat[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
        self.master = nn.Parameter(self.flat.float())
        self.optimizer = torch.optim.Adam([self.master], **options)

    def step(self, scale):
        gradients = torch.cat([parameter.grad.reshape(-1) for parameter in self.parameters])
        self.master.grad = gradients.float().div_(scale)
        self.optimizer.step()
        self.flat.copy_(self.master.data)

    def zero_grad(self):
        self.master.grad = None
        for parameter in self.parameters:
            parameter.grad = None


def flat_half_masters(record):
    model = smooth_net().cuda()
    flat = FlatHalf(model, lr=1e-3)
    record.watch([model, Held([flat.master])], [flat.optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        inputs = inputs.half()
        loss = functional.cross_entropy(model(inputs).float(), targets) * 128.0
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        flat.step(128.0)
        record.take("step", step, (inputs, targets))
        flat.zero_grad()


def main_gradients(record):
    """bf16 weights whose gradients a hook adds to fp32 ones that live as long as the model (Megatron)."""
    model = smooth_net().cuda().bfloat16()
    masters = {name: parameter.detach().float() for name, parameter in model.named_parameters()}
    main = {name: torch.zeros_like(master) for name, master in masters.items()}
    optimizer = torch.optim.Adam(masters.values(), lr=1e-3)

    def hook_of(name):
        def hook(parameter):
            main[name].add_(parameter.grad)
            parameter.grad = None
        return hook

    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(hook_of(name))
    record.watch([model, Held(masters.values())], [optimizer])
    for step in range(STEPS):
        for _ in range(2):
            inputs, targets = make_batch()
            inputs = inputs.bfloat16()
            loss = functional.cross_entropy(model(inputs).float(), targets)
            record.take("fwd", step, (inputs, targets), main.values())
            loss.backward()
            record.take("bwd", step, (inputs, targets), main.values())
        for name, master in masters.items():
            master.grad = main[name]
        optimizer.step()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(masters[name])
                main[name].zero_()
        record.take("step", step, (), main.values())


class Recommender(nn.Module):
    def __init__(self, users=4000, items=2000, width=64):
        super().__init__()
        self.users, self.items = (nn.Embedding(rows, width, sparse=True) for rows in (users, items))
        self.mix = nn.Sequential(nn.Linear(2 * width, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, users, items):
        return self.mix(torch.cat([self.users(users), self.items(items)], dim=1)).squeeze(1)


def sparse_gradients(record):
    """Embeddings with sparse gradients: rows and their indices, of no parameter's size."""
    model = Recommender().cuda()
    dense = torch.optim.Adam(model.mix.parameters())
    sparse = torch.optim.SparseAdam([*model.users.parameters(), *model.items.parameters()])
    record.watch([model], [dense, sparse])
    for step in range(STEPS):
        users, items, wanted = models.on_device(
            torch.randint(4000, (512,)), torch.randint(2000, (512,)), torch.rand(512))
        loss = functional.mse_loss(model(users, items), wanted)
        record.take("fwd", step, (users, items, wanted))
        loss.backward()
        record.take("bwd", step, (users, items, wanted))
        dense.step()
        sparse.step()
        record.take("step", step, (users, items, wanted))
        dense.zero_grad()
        sparse.zero_grad()


def functional_ensemble(record):
    """Members stacked by torch.func, gradients by vmap(grad), and updates by hand."""
    members = [smooth_net(256).cuda() for _ in range(4)]
    weights, buffers = func.stack_module_state(members)
    weights = {name: weight.detach() for name, weight in weights.items()}
    skeleton = copy.deepcopy(members[0]).to("meta")
    del members

    def loss_of(weights, buffers, inputs, targets):
        return functional.cross_entropy(func.functional_call(skeleton, (weights, buffers), (inputs,)), targets)

    gradient_of = func.vmap(func.grad_and_value(loss_of), in_dims=(0, 0, None, None))
    for step in range(STEPS):
        inputs, targets = make_batch(48)
        record.watch([Held(weights.values())])
        with record.without_hooks():
            gradients, _ = gradient_of(weights, buffers, inputs, targets)
        models.finish_backward()
        record.take("bwd", step, (inputs, targets), gradients.values())
        for name, weight in weights.items():
            weight.sub_(gradients[name], alpha=0.1)
        record.take("step", step, (inputs, targets), gradients.values())
        del gradients


class Ensemble:
    """Stacked members that autograd trains: the parameters are leaves that torch.stack made."""

    def __init__(self, members):
        self.weights, _ = func.stack_module_state(members)
        self.skeleton = copy.deepcopy(members[0]).to("meta")
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=1e-3)

    def __call__(self, inputs):
        one = lambda weights, rows: func.functional_call(self.skeleton, weights, (rows,))  # noqa: E731
        return func.vmap(one, in_dims=(0, None))(self.weights, inputs)


def stacked_ensemble(record):
    ensemble = Ensemble([smooth_net(256).cuda() for _ in range(4)])
    record.watch([Held(ensemble.weights.values())], [ensemble.optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        outputs = ensemble(inputs)
        loss = functional.cross_entropy(outputs.flatten(0, 1), targets.repeat(len(outputs)))
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        ensemble.optimizer.step()
        record.take("step", step, (inputs, targets))
        ensemble.optimizer.zero_grad()


class Features(nn.Module):
    def __init__(self, channels=(16, 32, 64)):
        super().__init__()
        sizes = (3, *channels)
        self.stages = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in zip(sizes, sizes[1:]))

    def forward(self, image):
        found = []
        for stage in self.stages:
            image = functional.relu(stage(image))
            found.append(image)
        return found


def gram(features):
    flat = features.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[-1]


def picture_trained(record):
    """What is trained is the picture; the network is frozen."""
    network = Features().cuda().eval().requires_grad_(False)
    content, style = (picture.cuda() for picture in torch.rand(2, 1, 3, 192, 192))
    with torch.no_grad(), record.free_choice():
        wanted = network(content)[-1]
        styles = [gram(features) for features in network(style)]
    picture = content.clone().requires_grad_()
    optimizer = torch.optim.Adam([picture], lr=0.02)
    held = (style, content, wanted, styles)
    record.watch([network, Held([picture])], [optimizer])
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        found = network(picture)
        loss = functional.mse_loss(found[-1], wanted)
        loss = loss + sum(functional.mse_loss(gram(one), other) for one, other in zip(found, styles))
        record.take("fwd", step, held)
        loss.backward()
        record.take("bwd", step, held)
        optimizer.step()
        record.take("step", step, held)


def attack(record, step, model, inputs, targets, rounds=2):
    """Projected gradient descent on the inputs."""
    change = torch.zeros_like(inputs)
    record.note("input", [change])
    for _ in range(rounds):
        change.requires_grad_()
        loss = functional.cross_entropy(model(inputs + change), targets)
        (slope,) = torch.autograd.grad(loss, change)
        record.take("attack", step, (inputs, targets), (slope,))
        change = (change.detach() + 0.01 * slope.sign()).clamp(-0.03, 0.03)
        record.note("held", [change])
    return change.detach()


def adversarial_training(record):
    """Each step first goes backward to its inputs, then to the weights."""
    model = small_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch(256)
        change = attack(record, step, model, inputs, targets)
        loss = functional.cross_entropy(model(inputs + change), targets)
        record.take("fwd", step, (inputs, targets))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))


def fast_gradient_sign(record):
    """An attack through inputs.grad, which stays until the inputs go."""
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch(256)
        inputs.requires_grad_(True)
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        noisy = (inputs + 0.1 * inputs.grad.sign()).detach()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(noisy), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def adapt(record, weights, forward, batch, rate=0.1):
    """One step of inner training that can be differentiated."""
    inputs, targets = batch
    loss = functional.cross_entropy(forward(weights, inputs), targets)
    slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
    record.note("gradient", slopes)
    fast = {name: weight - rate * slope for (name, weight), slope in zip(weights.items(), slopes)}
    record.note("held", fast.values())
    return fast


def meta_learning(record):
    """MAML of the second order: the outer backward goes through the inner gradients."""
    model = smooth_net(256).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])

    def forward(weights, inputs):
        return func.functional_call(model, weights, (inputs,))

    for step in range(STEPS):
        losses, batches = [], []
        for _ in range(2):
            support, query = make_batch(), make_batch()
            batches += [support, query]
            fast = adapt(record, dict(model.named_parameters()), forward, support)
            fast = adapt(record, fast, forward, support)
            losses.append(functional.cross_entropy(forward(fast, query[0]), query[1]))
        record.take("fwd", step, batches)
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        record.take("bwd", step, batches)
        optimizer.step()
        record.take("step", step, batches)


def curvature(record):
    """Hessian-vector products for the largest eigenvalue, beside ordinary steps."""
    model = smooth_net(256).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record.watch([model], [optimizer])
    weights = list(model.parameters())
    for step in range(STEPS):
        inputs, targets = make_batch()
        vector = [torch.randn_like(weight) for weight in weights]
        record.note("held", vector)
        loss = functional.cross_entropy(model(inputs), targets)
        slopes = torch.autograd.grad(loss, weights, create_graph=True)
        for _ in range(2):
            products = torch.autograd.grad(slopes, weights, grad_outputs=vector, retain_graph=True)
            record.note("gradient", products)
            norm = torch.sqrt(sum(product.square().sum() for product in products))
            vector = [product / (norm + 1e-6) for product in products]
            record.note("held", vector)
        record.take("hvp", step, (inputs, targets), [*slopes, *products])
        del slopes, products, vector, norm
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))


class Surgery:
    """Gradients of each task as a list of its own, projected and then put into .grad (PCGrad)."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.weights = [weight for group in optimizer.param_groups for weight in group["params"]]

    def gradients(self, losses):
        return [torch.autograd.grad(loss, self.weights, retain_graph=index + 1 < len(losses), allow_unused=True)
                for index, loss in enumerate(losses)]

    @torch.no_grad()
    def apply(self, tasks):
        for index, weight in enumerate(self.weights):
            first, second = (task[index] if task[index] is not None else torch.zeros_like(weight) for task in tasks)
            along = (first * second).sum() / second.square().sum().clamp_min(1e-9)
            weight.grad = first - along.clamp(max=0) * second + second
        self.optimizer.step()


class TwoTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = smooth_net(outputs=128)
        self.heads = nn.ModuleList(nn.Linear(128, 16) for _ in range(2))

    def forward(self, inputs):
        hidden = self.body(inputs)
        return [head(hidden) for head in self.heads]


def projected_gradients(record):
    model = TwoTasks().cuda()
    surgery = Surgery(torch.optim.Adam(model.parameters(), lr=1e-3))
    record.watch([model], [surgery.optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        losses = [functional.cross_entropy(outputs, targets) for outputs in model(inputs)]
        record.take("fwd", step, (inputs, targets))
        tasks = surgery.gradients(losses)
        kept = [slope for task in tasks for slope in task if slope is not None]
        record.take("bwd", step, (inputs, targets), kept)
        surgery.apply(tasks)
        record.take("step", step, (inputs, targets), kept)
        surgery.optimizer.zero_grad()
        del tasks, kept


def gradients_of_samples(record):
    """Each sample's gradient, by torch.func, for a convolution too; the largest are left out of the mean."""
    layers = [nn.Conv2d(3, 24, 3, bias=False), nn.Softplus(), nn.Conv2d(24, 40, 3, 2, bias=False), nn.Softplus(), nn.Flatten(),
              nn.Linear(40 * 6 * 6, 200)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])

    def loss_of(weights, image, target):
        return functional.cross_entropy(func.functional_call(model, weights, (image[None],)), target[None])

    for step in range(STEPS):
        images, targets = torch.rand(12, 3, 16, 16).cuda(), torch.randint(200, (12,)).cuda()
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        with record.without_hooks():
            samples = func.vmap(func.grad(loss_of), in_dims=(None, 0, 0))(weights, images, targets)
        models.finish_backward()  # its thread may still hold the graph
        record.take("samples", step, (images, targets), samples.values())
        for name, weight in model.named_parameters():
            weight.grad = samples[name][:10].mean(0)
        samples.clear()
        record.take("mean", step, (images, targets))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (images, targets))


def fisher_information(record):
    """Squares of gradients are added up in a dict over many passes (EWC); then training goes on with them."""
    model = smooth_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    totals = {}
    record.watch([model], [optimizer])
    for step in range(STEPS):
        inputs, targets = make_batch()
        model.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        record.take("bwd", step, (inputs, targets), totals.values())
        for name, weight in model.named_parameters():
            totals[name] = totals[name] + weight.grad if name in totals else weight.grad.clone()
        optimizer.step()
        record.take("step", step, (inputs, targets), totals.values())


def gradients_replaced(record):
    """.grad is clipped into new tensors, not in place, and steps follow."""
    model = smooth_net().cuda()
    optimizer = torch.optim.RMSprop(model.parameters())
    record.watch([model], [optimizer])

    def clip(limit):
        total = torch.linalg.vector_norm(torch.stack([weight.grad.norm() for weight in model.parameters()]))
        for weight in model.parameters():
            weight.grad = weight.grad * (limit / (total + 1e-6)).clamp(max=1.0)

    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        clip(1.0)
        record.take("clipped", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def gradients_by_function(record):
    """No backward(): autograd.grad gives a list, and a function of the script updates the weights."""
    layers = [torch.randn(256, 512, device="cuda") * 0.05, torch.zeros(512, device="cuda"),
              torch.randn(512, 32, device="cuda") * 0.05]
    layers = [layer.requires_grad_() for layer in layers]

    def predict(inputs):
        return torch.tanh(inputs @ layers[0] + layers[1]) @ layers[2]

    def update(slopes, rate):
        with torch.no_grad():
            for layer, slope in zip(layers, slopes):
                layer -= rate * slope

    record.watch([Held(layers)])
    for step in range(STEPS):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(predict(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        slopes = torch.autograd.grad(loss, layers)
        record.take("bwd", step, (inputs, targets), slopes)
        update(slopes, 0.1)
        record.take("step", step, (inputs, targets), slopes)
        del slopes
