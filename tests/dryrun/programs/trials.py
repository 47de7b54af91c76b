"""A training with an evaluation; arguments are edits by hand, each as a change of `dryrun --try` has it. Prints PyTorch's counters."""
import contextlib
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

EDITS = {word.partition("=")[0]: word.partition("=")[2] for word in sys.argv[1:]}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.relu = nn.ReLU(inplace="inplace" in EDITS)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights="need_weights" not in EDITS)[0]
        return x + self.down(self.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.embed, self.head = nn.Embedding(4000, width), nn.Linear(width, 4000)
        self.blocks = nn.ModuleList(Block(width) for _ in range(4))

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if "checkpoint" in EDITS and self.training else block(x)
        return self.head(x)


def make_optimizer(parameters):
    if EDITS.get("optimizer") == "sgd":
        return torch.optim.SGD(parameters, lr=1e-3)
    settings = {"foreach": False} if "foreach" in EDITS else {"fused": True} if "fused" in EDITS else {}
    return torch.optim.AdamW(parameters, lr=1e-3, **settings)


def autocast():
    return torch.autocast("cuda", dtype=torch.bfloat16) if "bf16" in EDITS else contextlib.nullcontext()


def loss_of(out, x):
    return nn.functional.cross_entropy(out.flatten(0, 1), x.flatten())


net = Net().cuda()
optimizer = make_optimizer(net.parameters())
data = torch.utils.data.TensorDataset(torch.randint(0, 4000, (512, 128)))
size = int(EDITS.get("batch", 16))
for (x,) in torch.utils.data.DataLoader(data, batch_size=size):
    x = x.cuda()
    with autocast():
        with torch.autograd.graph.save_on_cpu(pin_memory=True) if "offload" in EDITS else contextlib.nullcontext():
            loss = loss_of(net(x), x)
    if "zero_grad" not in EDITS:
        optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if "zero_grad" in EDITS:
        optimizer.zero_grad()
del loss
net.eval()
with torch.no_grad() if "no_grad" in EDITS else contextlib.nullcontext():
    for (x,) in torch.utils.data.DataLoader(data, batch_size=2 * size):
        x = x.cuda()
        with autocast():
            out = net(x)
        total = loss_of(out, x).item()
print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
