"""What many programs of training/ and inference/ share, where it is not their subject: small networks, batches, and the loop
that most people write."""
import time

import torch
from torch import nn
from torch.nn import functional

import models

STEPS = 3


def small_net():
    return nn.Sequential(
        nn.Linear(256, 512),
        nn.ReLU(),
        nn.BatchNorm1d(512),
        nn.Linear(512, 512),
        nn.GELU(),
        nn.Linear(512, 32),
    )


def plain_net(width=512):
    return nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 32))


def square_net():
    return nn.Sequential(nn.Linear(256, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 32))


def make_batch(rows=64):
    return models.on_device(torch.randn(rows, 256), torch.zeros(rows, dtype=torch.long))


def make_token_batch():
    return models.on_device(torch.zeros(8, 64, dtype=torch.long), torch.zeros(8 * 64, dtype=torch.long))


def train(record, model, optimizer, batch=make_batch, forward=None, steps=STEPS):
    """The loop that most people write; FORWARD gives the outputs that cross entropy is taken of."""
    record.watch([model], [optimizer])
    for step in range(steps):
        inputs, targets = batch()
        loss = functional.cross_entropy((forward or model)(inputs), targets)
        record.take("fwd", step, (inputs, targets))
        loss.backward()
        record.take("bwd", step, (inputs, targets))
        optimizer.step()
        record.take("step", step, (inputs, targets))
        optimizer.zero_grad()


def step_of_loop(record, step, batch, loss, optimizer):
    """What follows the forward in most loops."""
    record.take("fwd", step, batch)
    optimizer.zero_grad()
    loss.backward()
    record.take("bwd", step, batch)
    optimizer.step()
    record.take("step", step, batch)


def begin_process_group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def end_process_group():
    """Destroying it joins its threads with the GIL held, for which they may wait to let go of the last work: a deadlock of
    PyTorch's own. So they are given the time before."""
    time.sleep(0.5)
    torch.distributed.destroy_process_group()
