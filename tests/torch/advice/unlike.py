"""Scripts for test_advice.py that look like those of losses.py: the advice would be wrong, or is right for another reason.

    unlike.py NAME 0|1"""
import functools
import json
import sys

import torch
from torch import nn
from torch.nn import functional

STEPS = 4
tokens = functools.partial(torch.randint, device="cuda")


def perceptron(width, out):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, 4 * width), nn.GELU(), nn.Linear(4 * width, out))


def train(model, loss_of, make=torch.optim.AdamW):
    optimizer = make(model.parameters())
    for _ in range(STEPS):
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()


def attention(*shape):
    return nn.MultiheadAttention(128, 4, batch_first=True).cuda(), torch.randn(*shape, device="cuda")


def weights_in_loss(follow):
    """The weights are wanted sparse."""
    layer, x = attention(4, 512, 128)

    def loss():
        out, weights = layer(x, x, x)
        return out.mean() + weights.clamp_min(1e-6).log().mean()
    train(layer, loss)


def weights_collected(follow):
    """For a picture of the last step's: large beside what the allocator leaves of a block, which is up to 1 MiB."""
    layer, x = attention(8, 1024, 128)
    seen = []

    def loss():
        out, weights = layer(x, x, x)
        seen[:] = [] if follow else [weights.detach()]
        return out.mean()
    train(layer, loss)


def recurrent(follow):
    """The same calls again and again within one pass of a module."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = nn.GRUCell(128, 512), nn.Linear(512, 128)

        def forward(self, xs):
            state, loss = torch.zeros(1024, 512, device="cuda"), 0
            for x in xs:
                state = self.cell(x, state)
                loss = loss + self.out(state).square().mean()
            return loss
    net, xs = Net().cuda(), torch.randn(6, 1024, 128, device="cuda")
    train(net, lambda: net(xs))


def square_state(follow):
    """What goes from call to call has a weight's size."""
    layer = nn.Linear(1024, 1024).cuda()

    def loss():
        state, total = torch.zeros(1024, 1024, device="cuda"), 0
        for _ in range(5):
            state = torch.tanh(layer(state))
            total = total + state.square().mean()
        return total
    train(layer, loss, functools.partial(torch.optim.SGD, lr=0.1))


def triplet(follow):
    """One loss of three passes, each normalised."""
    model = perceptron(256, 256).cuda()

    def loss():
        anchor, near, far = (functional.normalize(model(torch.randn(3000, 256, device="cuda")), dim=1) for _ in range(3))
        return functional.triplet_margin_loss(anchor, near, far)
    train(model, loss)


def critic(follow):
    """A critic's losses of true and of made samples: two passes that do not need each other."""
    model = perceptron(256, 1).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        parts = []
        for sign in (1, -1):
            loss = functional.softplus(sign * model(torch.randn(4096, 256, device="cuda"))).mean()
            loss.backward() if follow else parts.append(loss)
        if not follow:
            (parts[0] + parts[1]).backward()
        optimizer.step()
        optimizer.zero_grad()


def mixed_precision(follow):
    """Four small batches under one autocast, whose copies of the weights serve all of them."""
    model = perceptron(256, 256).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        total = 0
        for _ in range(4):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(torch.randn(4096, 256, device="cuda")).float().square().mean() / 4
            if follow:
                loss.backward()
            else:
                total = total + loss
        if not follow:
            total.backward()
        optimizer.step()
        optimizer.zero_grad()


def few_classes(follow):
    """A loss that is nothing beside the rest."""
    model = perceptron(512, 10).cuda()
    train(model, lambda: functional.cross_entropy(model(torch.randn(4096, 512, device="cuda")), tokens(0, 10, (4096,))))


def kept_and_needed(follow):
    """The logits are kept, and backward needs them, too."""
    model, kept = perceptron(128, 2048).cuda(), []

    def loss():
        logits = model(torch.randn(4096, 128, device="cuda"))
        kept[:] = [logits]
        return logits.square().mean()
    train(model, loss)


def kept_hidden(follow):
    """The hidden states of all layers, for a look at them; the layers after them need them."""
    model, kept = perceptron(256, 256).cuda(), []

    def loss():
        x = torch.randn(4096, 256, device="cuda")
        kept.clear()
        for layer in model:
            x = layer(x)
            if not follow:
                kept.append(x)
        return x.mean()
    train(model, loss)


def main():
    told = globals()[sys.argv[1]](sys.argv[2] == "1") or {}
    print(json.dumps({"peak": torch.cuda.max_memory_allocated(), **told}))


main()
