"""The models that tests train: small, since only Python's overhead counts where kernels do nothing.

make(name) gives a Workload. Training is the same for all:

    for step in range(n):
        batch, target = workload.batch()
        with workload.autocast():
            loss = workload.loss(workload.model(batch), target)
        loss.backward(); workload.optimizer.step(); workload.optimizer.zero_grad()
"""
import contextlib
import dataclasses
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass
class Workload:
    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Callable[[], Any]  # gives (inputs, targets), made anew on the device
    loss: Callable[[Any, Any], torch.Tensor]
    amp: bool = False

    def autocast(self):
        return torch.autocast("cuda", torch.bfloat16) if self.amp else contextlib.nullcontext()


def settings():
    """cuDNN's graphs need a real backend; everything else of PyTorch runs over the stand-in."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def finish_backward():
    """To be called where a script ends. The engine's thread lets go of a backward pass only after it has woken who waits
    for it. If it needs the GIL for that (the pass ran under hooks or modes, which are Python's) while the interpreter
    ends, the process dies of "terminate called without an active exception", with our recorder or without. It has let go once
    it has gone through another pass: one of no bytes, with nothing of Python's."""
    if torch.cuda.is_initialized():
        nothing = torch.empty(0, device="cuda", requires_grad=True)
        torch.autograd.Variable._execution_engine.run_backward(
            (nothing,), (nothing.detach(),), False, False, (), allow_unreachable=True, accumulate_grad=True)


def on_device(*tensors):
    return tuple(tensor.to("cuda") for tensor in tensors)


def mlp(optimizer="sgd"):
    model = nn.Sequential(
        nn.Linear(512, 1024),
        nn.ReLU(),
        nn.BatchNorm1d(1024),
        nn.Linear(1024, 1024),
        nn.GELU(),
        nn.Linear(1024, 10),
    ).cuda()
    if optimizer == "adam":
        chosen = torch.optim.Adam(model.parameters(), lr=1e-3)
    else:
        chosen = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    return Workload(
        f"mlp_{optimizer}",
        model,
        chosen,
        lambda: on_device(torch.zeros(256, 512), torch.zeros(256, dtype=torch.long)),
        functional.cross_entropy,
    )


class Transformer(nn.Module):
    def __init__(self, layers=4, width=256, heads=8, vocabulary=4000):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))


def token_loss(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def token_batch(rows, length):
    return on_device(torch.zeros(rows, length, dtype=torch.long), torch.zeros(rows, length, dtype=torch.long))


def transformer_amp():
    model = Transformer().cuda()
    return Workload(
        "transformer_amp",
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        lambda: token_batch(8, 128),
        token_loss,
        amp=True,
    )


def resnet50():
    import torchvision

    model = torchvision.models.resnet50(num_classes=10).cuda()
    return Workload(
        "resnet50",
        model,
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        lambda: on_device(torch.zeros(4, 3, 64, 64), torch.zeros(4, dtype=torch.long)),
        functional.cross_entropy,
    )


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden):
        rows, length, width = hidden.shape
        query, key, value = (
            part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.attention(self.attention_norm(hidden)).chunk(3, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.projection(mixed.transpose(1, 2).reshape(rows, length, width))
        return hidden + self.mlp(self.mlp_norm(hidden))


class Gpt(nn.Module):
    """With tied embeddings, and gradient checkpointing where asked for."""

    def __init__(self, layers=4, width=256, heads=8, vocabulary=4000, length=128, checkpoint=False):
        super().__init__()
        self.checkpoint = checkpoint
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("order", torch.arange(length), persistent=False)

    def forward(self, tokens):
        hidden = self.tokens(tokens) + self.positions(self.order[: tokens.shape[1]])
        for block in self.blocks:
            if self.checkpoint:
                hidden = torch.utils.checkpoint.checkpoint(block, hidden, use_reentrant=False)
            else:
                hidden = block(hidden)
        return self.head(self.norm(hidden))


def gpt(checkpoint=False):
    import torch.utils.checkpoint

    model = Gpt(checkpoint=checkpoint).cuda()
    return Workload(
        "gpt_checkpoint" if checkpoint else "gpt",
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        lambda: token_batch(4, 128),
        token_loss,
    )


MODELS = {
    "mlp_sgd": lambda: mlp("sgd"),
    "mlp_adam": lambda: mlp("adam"),
    "transformer_amp": transformer_amp,
    "resnet50": resnet50,
    "gpt": gpt,
    "gpt_checkpoint": lambda: gpt(checkpoint=True),
}


def make(name):
    settings()
    return MODELS[name]()
