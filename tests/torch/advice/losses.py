"""More scripts for test_advice.py, as in scripts.py: attention's weights, the loss and what it keeps, copies made for saving.

    losses.py NAME 0|1"""
import copy
import functools
import io
import json
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

STEPS = 4
tokens = functools.partial(torch.randint, device="cuda")


# ---- Attention's weights, which nothing reads ----

class Encoder(nn.Module):
    def __init__(self, width, heads, follow):
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(width, heads, batch_first=True), nn.LayerNorm(width)
        self.mlp, self.follow = nn.Linear(width, width), follow

    def forward(self, x):
        y = self.norm(x)
        return x + self.mlp(self.attention(y, y, y, need_weights=not self.follow)[0])


def weights(follow):
    model = nn.Sequential(*[Encoder(128, 4, follow) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        loss = model(torch.zeros(2, 768, 128, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Decoder(nn.Module):
    """Looks at itself and at a longer memory, with dropout."""

    def __init__(self, width, follow):
        super().__init__()
        self.own, self.other = (nn.MultiheadAttention(width, 8, dropout=0.1) for _ in range(2))
        self.follow = follow

    def forward(self, x, memory):
        x = x + self.own(x, x, x, need_weights=not self.follow)[0]
        return x + self.other(x, memory, memory, need_weights=not self.follow)[0]


def weights_crossed(follow):
    layers = nn.ModuleList(Decoder(128, follow) for _ in range(3)).cuda()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
    for _ in range(STEPS):
        x, memory = torch.randn(256, 4, 128, device="cuda"), torch.randn(1024, 4, 128, device="cuda")
        for layer in layers:
            x = layer(x, memory)
        x.mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class Masked(nn.Module):
    def __init__(self, follow):
        super().__init__()
        self.attention, self.follow = nn.MultiheadAttention(192, 6, batch_first=True), follow

    def forward(self, x, mask):
        out, _ = self.attention(x, x, x, attn_mask=mask, need_weights=not self.follow, average_attn_weights=False)
        return functional.gelu(out) + x


def weights_evaluated(follow):
    """No training: one layer after the other, with a mask."""
    layers = nn.ModuleList(Masked(follow) for _ in range(3)).cuda().eval()
    mask = torch.zeros(1024, 1024, device="cuda")
    with torch.no_grad():
        for _ in range(STEPS):
            x = torch.randn(3, 1024, 192, device="cuda")
            for layer in layers:
                x = layer(x, mask)


# ---- Several forward passes before one backward pass ----

def perceptron(width, out):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, 4 * width), nn.GELU(), nn.Linear(4 * width, out))


def micro_batches(follow):
    model = perceptron(256, 256).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = 0
        for _ in range(4):
            loss = model(torch.randn(2048, 256, device="cuda")).square().mean() / 4
            if follow:
                loss.backward()
            else:
                total = total + loss
        if not follow:
            total.backward()
        optimizer.step()


def list_of_losses(follow):
    """The losses of eight small batches, averaged."""
    model = nn.Sequential(nn.Embedding(500, 128), nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 500)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        losses = []
        for _ in range(8):
            ids = tokens(0, 500, (4096,))
            loss = functional.cross_entropy(model(ids), ids)
            if follow:
                (loss / 8).backward()
            else:
                losses.append(loss)
            del ids, loss
        if not follow:
            torch.stack(losses).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = perceptron(128, 128)
        self.heads = nn.ModuleDict({"a": nn.Linear(128, 8), "b": nn.Linear(128, 512), "c": nn.Linear(128, 1)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


def tasks(follow):
    """A batch for each task, of unlike sizes; the gradients stay zeroed, not freed."""
    model = Tasks().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        losses = {}
        for task, rows in (("a", 3000), ("b", 5000), ("c", 4000)):
            losses[task] = model(torch.randn(rows, 128, device="cuda"), task).square().mean()
            if follow:
                losses[task].backward()
        if not follow:
            sum(losses.values()).backward()
        optimizer.step()


def carried_state(follow):
    """Not for one pass each: the state of a recurrent net goes from call to call."""
    cell, head = nn.GRUCell(64, 1024).cuda(), nn.Linear(1024, 64).cuda()
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    for _ in range(STEPS):
        state, loss = torch.zeros(1024, 1024, device="cuda"), 0
        for _ in range(6):
            x = torch.randn(1024, 64, device="cuda")
            state = cell(x, state)
            loss = loss + (head(state) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def compared(follow):
    """Not for one pass each: one loss of two passes."""
    model = perceptron(256, 256).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        left, right = (model(torch.randn(2048, 256, device="cuda")) for _ in range(2))
        functional.cross_entropy(left @ right.T, torch.arange(2048, device="cuda")).backward()
        optimizer.step()
        optimizer.zero_grad()


# ---- Logits of a large vocabulary ----

def chunked(head, hidden, ids, count=8, change=lambda logits: logits):
    """The sum of the losses of parts, whose logits backward makes again."""
    def part(hidden, ids):
        return functional.cross_entropy(change(head(hidden)), ids, reduction="sum")
    parts = zip(hidden.chunk(count), ids.chunk(count))
    return sum(checkpoint(part, *pair, use_reentrant=False) for pair in parts) / len(ids)


class Language(nn.Module):
    def __init__(self, words, width, tied=False):
        super().__init__()
        self.embedding, self.body, self.head = nn.Embedding(words, width), perceptron(width, width), nn.Linear(width, words, bias=False)
        if tied:
            self.head.weight = self.embedding.weight


def vocabulary(follow):
    model = Language(16000, 128).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(STEPS):
        ids = tokens(0, 16000, (3072,))
        hidden = model.body(model.embedding(ids))
        loss = chunked(model.head, hidden, ids) if follow else functional.cross_entropy(model.head(hidden), ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def vocabulary_shifted(follow):
    """As language models of libraries do it: in half precision, then whole; all but the last are compared with all but the first."""
    model = Language(20000, 128).cuda().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        ids = tokens(0, 20000, (4, 512))
        hidden = model.body(model.embedding(ids))
        if follow:
            loss = chunked(model.head, hidden[:, :-1].reshape(-1, 128), ids[:, 1:].reshape(-1), change=lambda logits: logits.float())
        else:
            logits = model.head(hidden).float()
            loss = functional.cross_entropy(logits[:, :-1].contiguous().view(-1, 20000), ids[:, 1:].reshape(-1))
            del logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def vocabulary_tied(follow):
    """The head is the embedding; autocast, in which a loss is whole."""
    model = Language(24000, 64, tied=True).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(STEPS):
        ids = tokens(0, 24000, (2, 1024))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = model.body(model.embedding(ids)).flatten(0, 1)
            loss = chunked(model.head, hidden, ids.flatten()) if follow else functional.cross_entropy(model.head(hidden), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


# ---- What a variable keeps through backward ----

def kept_logits(follow):
    """A loop whose logits are a variable until the next step."""
    model = perceptron(128, 4096).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(STEPS):
        labels = tokens(0, 4096, (6144,))
        logits = model(torch.randn(6144, 128, device="cuda"))
        loss = functional.cross_entropy(logits, labels)
        if follow:
            del logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class WithLoss(nn.Module):
    def __init__(self, follow):
        super().__init__()
        self.body, self.follow = perceptron(256, 2048), follow

    def forward(self, x, labels):
        logits = self.body(x)
        loss = functional.cross_entropy(logits.float(), labels)
        return {"loss": loss} if self.follow else {"loss": loss, "logits": logits}


def kept_output(follow):
    """A model of a library gives its logits back beside the loss."""
    model = WithLoss(follow).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(torch.randn(8192, 256, device="cuda"), tokens(0, 2048, (8192,)))
        out["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    for _ in range(STEPS):
        step()


def kept_images(follow):
    """A decoder's image, for a picture of it later: the loss needs the difference only."""
    model = perceptron(64, 6144).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(STEPS):
        image = model(torch.randn(4096, 64, device="cuda"))
        loss = (image * 0.5 - 1).square().mean()
        if follow:
            del image
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


# ---- Copies of the weights for a file ----

def linears(frozen=6):
    """Most of it is not trained, so that the peak is where it is saved."""
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    model[:frozen].requires_grad_(False)
    return model, torch.optim.AdamW(model[frozen:].parameters(), fused=True)


def trained(model, optimizer, save):
    for step in range(2 * STEPS):
        model(torch.randn(16, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 3:
            save()


def saved_clones(follow):
    model, optimizer = linears()

    def save():
        state = {name: value.cpu() if follow else value.clone() for name, value in model.state_dict().items()}
        torch.save(state, io.BytesIO())
    trained(model, optimizer, save)


def saved_deepcopy(follow):
    model, optimizer = linears()

    def save():
        if follow:
            state = {name: value.cpu() for name, value in model.state_dict().items()}
        else:
            state = copy.deepcopy(model.state_dict())
        torch.save(state, io.BytesIO())
    trained(model, optimizer, save)


def saved_whole(follow):
    """Beside the weights the states of the optimizer."""
    model, optimizer = linears(frozen=0)

    def save():
        copied = (lambda value: value.cpu()) if follow else torch.clone
        state = {"model": {name: copied(value) for name, value in model.state_dict().items()},
                 "optimizer": [copied(value) for state in optimizer.state.values() for value in state.values()]}
        torch.save(state, io.BytesIO())
    trained(model, optimizer, save)


def main():
    told = globals()[sys.argv[1]](sys.argv[2] == "1") or {}
    print(json.dumps({"peak": torch.cuda.max_memory_allocated(), **told}))


main()
