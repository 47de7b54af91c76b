"""Copies of weights beside the model that trains: checkpoints read onto the device, best states, averages, what a task left.
And data that is on the device as a whole, which has the life of parameters."""
import copy
import dataclasses

import torch
from torch import nn
from torch.nn import functional

import models
from category_truth import tensors_in
from nets import STEPS, make_batch, plain_net, small_net, square_net, step_of_loop, train


def saved_checkpoint(record, make_model=small_net, optimizer_class=torch.optim.Adam):
    """The file of a run on the host: its model, its optimizer."""
    first = make_model()
    other = optimizer_class(first.parameters())
    functional.cross_entropy(first(torch.randn(64, 256)), torch.zeros(64, dtype=torch.long)).backward()
    other.step()
    file = f"{record.path}.checkpoint"
    torch.save({"epoch": 3, "model": first.state_dict(), "optimizer": other.state_dict()}, file)
    return file


def loop(record, model, optimizer, steps=STEPS, after=None, first=0):
    for step in range(first, first + steps):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        step_of_loop(record, step, (inputs, targets), loss, optimizer)
        if after:
            after(step)
            record.take("after", step)


def remember(record, values):
    """That VALUES are copies of weights."""
    record.note("checkpoint_copy", tensors_in(values))


# ---- Checkpoints ----


def checkpoint_kept(record):
    """The leftover of many scripts: `checkpoint` is a variable for as long as the training runs."""
    file = saved_checkpoint(record)
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    checkpoint = torch.load(file, map_location="cuda")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    remember(record, checkpoint["model"])
    train(record, model, optimizer)
    assert checkpoint


class Experiment:
    """A trainer that has read its checkpoint before the model is there, and keeps it."""

    def __init__(self, record, file):
        self.resumed = torch.load(file, map_location=torch.device("cuda", 0), weights_only=True)
        remember(record, self.resumed)
        self.model = self.build()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def build(self):
        model = plain_net()
        model.load_state_dict(self.resumed["model"])
        return model.to("cuda")


def checkpoint_of_trainer(record):
    """Model and optimizer of a checkpoint, of which only the weights are used."""
    experiment = Experiment(record, saved_checkpoint(record, plain_net))
    train(record, experiment.model, experiment.optimizer)


def resumed_late(record):
    """The batch size is tried first; only then the run goes on from its checkpoint, which is dropped."""
    file = saved_checkpoint(record)
    model = small_net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    inputs, targets = make_batch()
    functional.cross_entropy(model(inputs), targets).backward()
    record.take("tried", 0, (inputs, targets))
    model.zero_grad()
    del inputs, targets

    def resume(path):
        state = torch.load(path, map_location="cuda")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    resume(file)
    record.take("resumed", 0)
    loop(record, model, optimizer, first=1)


# ---- Best so far ----


def best_so_far(record):
    """The classic: a dict of clones, made anew whenever the loss is better."""
    model = small_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    record.watch([model], [optimizer])
    best = {}

    def keep(step):
        nonlocal best
        if step in (1, 3):
            best = {name: value.detach().clone() for name, value in model.state_dict().items()}
            remember(record, best)

    loop(record, model, optimizer, 5, keep)


class EarlyStopping:
    def __init__(self, patience=2):
        self.patience, self.best_score, self.best_weights = patience, None, None

    def __call__(self, score, model):
        if self.best_score is None or score > self.best_score:
            self.best_score = score
            self.best_weights = copy.deepcopy(model.state_dict())


def early_stopping(record):
    """deepcopy of a state dict, which an object holds; what it evaluates with is the model."""
    model = square_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record.watch([model], [optimizer])
    stopping = EarlyStopping()

    def evaluate(step):
        model.eval()
        with torch.no_grad(), record.free_choice():
            inputs, targets = make_batch()
            functional.cross_entropy(model(inputs), targets)
            del inputs, targets
        model.train()
        stopping(step if step < 3 else 0, model)
        remember(record, stopping.best_weights)

    loop(record, model, optimizer, 5, evaluate)


def snapshots(record):
    """The last few states in a list, for an ensemble."""
    model = plain_net(256).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    ensemble = []

    def keep(step):
        ensemble.append([parameter.data.clone() for parameter in model.parameters()])
        del ensemble[:-2]
        remember(record, ensemble)

    loop(record, model, optimizer, 5, keep)


# ---- Averages and anchors ----


class EMA:
    """As it is copied from repository to repository."""

    def __init__(self, model, decay=0.999):
        self.model, self.decay, self.shadow, self.backup = model, decay, {}, {}

    def register(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = param.data.clone()

    def update(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                new_average = (1.0 - self.decay) * param.data + self.decay * self.shadow[name]
                self.shadow[name] = new_average.clone()

    def apply_shadow(self):
        for name, param in self.model.named_parameters():
            self.backup[name] = param.data
            param.data = self.shadow[name]

    def restore(self):
        for name, param in self.model.named_parameters():
            param.data = self.backup[name]
        self.backup = {}


def ema_shadow(record):
    """Averages in a dict that each step makes anew."""
    model = small_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    average = EMA(model)
    average.register()
    remember(record, average.shadow)
    record.watch([model], [optimizer])

    def update(step):
        average.update()
        remember(record, average.shadow)

    loop(record, model, optimizer, 5, update)


@dataclasses.dataclass
class Averaged:
    values: list
    seen: int = 1

    def fold(self, parameters):
        self.seen += 1
        for value, parameter in zip(self.values, parameters):
            value.add_((parameter.detach() - value) / self.seen)


def weight_average(record):
    """An average over the last steps, begun in the middle of training and changed in place (SWA)."""
    model = plain_net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    record.watch([model], [optimizer])
    average = None

    def fold(step):
        nonlocal average
        if step == 1:
            average = Averaged([parameter.detach().clone() for parameter in model.parameters()])
            remember(record, average.values)
        elif average:
            with torch.no_grad():
                average.fold(list(model.parameters()))

    loop(record, model, optimizer, 5, fold)


def elastic_weights(record):
    """The weights that a first task left hold the second one back (EWC)."""
    model = plain_net(256).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    record.watch([model], [optimizer])
    loop(record, model, optimizer, 2)
    anchors = {name: parameter.clone().detach() for name, parameter in model.named_parameters()}
    remember(record, anchors)
    for step in range(2, 5):
        inputs, targets = make_batch()
        loss = functional.cross_entropy(model(inputs), targets)
        for name, parameter in model.named_parameters():
            loss = loss + 50 * (parameter - anchors[name]).pow(2).sum()
        step_of_loop(record, step, (inputs, targets), loss, optimizer)


def teacher_of_middle(record):
    """A deep copy that serves forwards is a model: its tensors are parameters."""
    model = plain_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    record.watch([model], [optimizer])
    loop(record, model, optimizer, 2)
    teacher = copy.deepcopy(model).eval().requires_grad_(False)
    record.watch([model, teacher], [optimizer])
    for step in range(2, 5):
        inputs, targets = make_batch()
        with torch.no_grad(), record.free_choice():
            wanted = teacher(inputs)
        loss = functional.mse_loss(model(inputs), wanted)
        step_of_loop(record, step, (inputs, targets), loss, optimizer)


# ---- Data that is on the device as a whole ----


class Data:
    """As in graph libraries: `to` is applied to each tensor that it has."""

    def __init__(self, **tensors):
        self.__dict__.update(tensors)

    def apply(self, function):
        for key, value in self.__dict__.items():
            if isinstance(value, torch.Tensor):
                self.__dict__[key] = function(value)
        return self

    def to(self, device):
        return self.apply(lambda value: value.to(device=device, non_blocking=True))


class Convolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, nodes, edges):
        nodes = self.linear(nodes)
        return torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]])


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Convolution(256, 128), Convolution(128, 32)

    def forward(self, data):
        return self.second(functional.relu(self.first(data.x, data.edge_index)), data.edge_index)


def graph_data(record):
    """One graph for all steps, moved by a method of its own after the model."""
    device = torch.device("cuda")
    data = Data(x=torch.randn(2048, 256), edge_index=torch.zeros(2, 8192, dtype=torch.long), y=torch.zeros(2048, dtype=torch.long),
                train_mask=torch.ones(2048, dtype=torch.bool))
    model, data = Graph().to(device), data.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    record.watch([model], [optimizer])
    inputs = (data.x, data.edge_index, data.y, data.train_mask)
    for step in range(4):
        model.train()
        optimizer.zero_grad()
        outputs = model(data)
        loss = functional.cross_entropy(outputs[data.train_mask], data.y[data.train_mask])
        record.take("fwd", step, inputs)
        loss.backward()
        record.take("bwd", step, inputs)
        optimizer.step()
        record.take("step", step, inputs)


def square_data(record):
    """Features and targets as large as weights; the batches are views of them."""
    features, wanted = (torch.randn(512, 256).cuda() for _ in range(2))
    net = nn.Sequential(nn.Linear(256, 512, bias=False), nn.GELU(), nn.Linear(512, 256, bias=False)).cuda()
    adam = torch.optim.Adam(net.parameters())
    record.watch([net], [adam])
    for step in range(4):
        rows = slice(step * 128, step * 128 + 128)
        loss = functional.mse_loss(net(features[rows]), wanted[rows])
        step_of_loop(record, step, (features, wanted), loss, adam)


class GpuDataset:
    """All images at once, normalised on the device; batches are permuted rows, flipped as they come."""

    def __init__(self, count=512):
        raw = torch.zeros(count, 3, 16, 16, dtype=torch.uint8)
        self.images = (raw.cuda().float() / 255 - 0.5) / 0.25
        self.labels = torch.zeros(count, dtype=torch.long, device="cuda")

    def batches(self, size):
        order = torch.arange(len(self.images), device="cuda")
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            yield order, self.images[chosen].flip(-1), self.labels[chosen]


def gpu_dataset(record):
    data = GpuDataset()
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 14 * 14, 32)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    record.watch([model], [optimizer])
    for step, (order, images, labels) in enumerate(data.batches(128)):
        loss = functional.cross_entropy(model(images), labels)
        step_of_loop(record, step, (data.images, data.labels, order, images, labels), loss, optimizer)


def loaded_features(record):
    """Features that another program wrote, read straight onto the device."""
    file = f"{record.path}.features"
    torch.save({"features": torch.randn(1024, 256), "labels": torch.zeros(1024, dtype=torch.long)}, file)
    stored = torch.load(file, map_location="cuda")
    probe = small_net().cuda()
    optimizer = torch.optim.AdamW(probe.parameters())
    record.watch([probe], [optimizer])
    for step in range(4):
        (picked,) = models.on_device(torch.arange(64))
        inputs, targets = stored["features"][picked], stored["labels"][picked]
        loss = functional.cross_entropy(probe(inputs), targets)
        step_of_loop(record, step, (stored["features"], stored["labels"], picked, inputs, targets), loss, optimizer)
