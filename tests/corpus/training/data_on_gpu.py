"""Data that stays on the card as a whole."""
from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import nn
import torch.nn.functional as F

dev = "cuda"


@dataclass
class GraphData:
    """What torch_geometric's Data is, as far as a small project needs it."""

    x: torch.Tensor
    edge_index: torch.Tensor
    y: torch.Tensor
    train_mask: torch.Tensor

    def to(self, device):
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    def tensors(self):
        return [getattr(self, f.name) for f in fields(self)]


class GCNConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = self.lin(x)
        return torch.zeros_like(h).index_add(0, dst, h[src]) + self.bias


class GCN(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(i, h), GCNConv(h, o)

    def forward(self, data):
        x = F.relu(self.conv1(data.x, data.edge_index))
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.conv2(x, data.edge_index), dim=1)


def node_classification(record):
    n = 3000
    data = GraphData(torch.randn(n, 300), torch.zeros(2, 4 * n, dtype=torch.long), torch.zeros(n, dtype=torch.long),
                     torch.ones(n, dtype=torch.bool)).to(dev)
    model = GCN(300, 128, 7).to(dev)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    record.watch([model], [optimizer])
    model.train()
    for epoch in range(4):
        optimizer.zero_grad()
        out = model(data)
        loss = F.nll_loss(out, data.y)
        record.take("fwd", epoch, data.tensors())
        loss.backward()
        record.take("bwd", epoch, data.tensors())
        optimizer.step()
        record.take("step", epoch, data.tensors())


def sparse_adjacency(record):
    """A graph as a sparse matrix, and features as large as the weights by chance."""
    n, d = 512, 512
    index = torch.stack([torch.arange(8 * n) % n, torch.arange(8 * n) // 8])
    adjacency = torch.sparse_coo_tensor(index, torch.ones(8 * n), (n, n)).to_sparse_csr()
    rows, cols, vals = (t.to(dev) for t in (adjacency.crow_indices(), adjacency.col_indices(), adjacency.values()))
    feats = torch.randn(n, d).to(dev)
    target = torch.randn(n, 4).to(dev)
    w1 = nn.Parameter(torch.empty(d, d, device=dev).normal_(std=0.02))
    w2 = nn.Parameter(torch.empty(d, 4, device=dev).normal_(std=0.02))
    opt = torch.optim.SGD([w1, w2], lr=0.1, momentum=0.9)
    record.hold("parameter", lambda: [w1, w2])
    record.hold("gradient", lambda: [w1.grad, w2.grad])
    record.watch([], [opt])
    everything = (rows, cols, vals, feats, target)

    def propagate(h):
        gathered = h.index_select(0, cols) * vals[:, None]
        return gathered.view(n, 8, -1).sum(1)

    for it in range(5):
        h = torch.relu(propagate(feats @ w1))
        loss = (propagate(h @ w2) - target).pow(2).mean()
        record.take("loss", it, everything)
        loss.backward()
        record.take("grad", it, everything)
        opt.step()
        opt.zero_grad()
        record.take("done", it, everything)
        del h, loss


def gpu_tensor_dataset(record):
    """TensorDataset of CUDA tensors, collated by a DataLoader without workers."""
    images, labels = torch.randn(512, 3, 32, 32), torch.randint(10, (512,))
    ds = torch.utils.data.TensorDataset(images.to(dev), labels.to(dev))
    dl = torch.utils.data.DataLoader(ds, batch_size=64, shuffle=True)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 256), nn.ReLU(), nn.Linear(256, 10)).to(dev)
    opt = torch.optim.AdamW(net.parameters())
    record.watch([net], [opt])
    for i, (xb, yb) in enumerate(dl):
        if i == 5:
            break
        loss = F.cross_entropy(net(xb), yb)
        record.take("fwd", i, (xb, yb, ds.tensors))
        opt.zero_grad()
        loss.backward()
        record.take("bwd", i, (xb, yb, ds.tensors))
        opt.step()
        record.take("step", i, (xb, yb, ds.tensors))


class RayBank:
    def __init__(self, count):
        self.rays = torch.randn(count, 6).cuda()
        self.rgb = torch.rand(count, 3).cuda()
        self.reshuffle()

    def reshuffle(self):
        order = torch.randperm(len(self.rays)).to(self.rays.device)
        self.rays, self.rgb, self.cursor = self.rays[order], self.rgb[order], 0

    def next(self, n):
        if self.cursor + n > len(self.rays):
            self.reshuffle()
        part = slice(self.cursor, self.cursor + n)
        self.cursor += n
        return self.rays[part], self.rgb[part]


def radiance_field(record):
    """All rays of all views on the card, in a new order for each epoch; a batch is a view of them."""
    bank = RayBank(40_000)
    field = nn.Sequential(nn.Linear(36, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3)).cuda()
    optim = torch.optim.Adam(field.parameters(), lr=5e-4)
    record.watch([field], [optim])

    def encode(rays):
        return torch.cat([f(rays * 2 ** k) for k in range(3) for f in (torch.sin, torch.cos)], -1)

    record.hold("input", lambda: [bank.rays, bank.rgb])
    for it in range(6):
        rays, rgb = bank.next(14_000)
        points = encode(rays)
        loss = ((field(points).sigmoid() - rgb) ** 2).mean()
        record.take("render", it, points)
        optim.zero_grad()
        loss.backward()
        record.take("back", it, points)
        optim.step()
        record.take("opt", it, points)


def linear_probe(record):
    """Features of all images are made once by a frozen trunk; the head learns from them."""
    trunk = nn.Sequential(nn.Conv2d(3, 32, 4, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 4), nn.ReLU(), nn.Flatten(), nn.Linear(256, 512))
    trunk = trunk.eval().to(dev).requires_grad_(False)
    feats, labels = [], []
    with torch.inference_mode(), record.free_choice():
        for _ in range(6):
            img = torch.randn(128, 3, 32, 32)
            feats.append(trunk(img.to(dev)).clone())
            labels.append(torch.zeros(128, dtype=torch.long))
    with torch.no_grad():
        X, Y = torch.cat(feats), torch.cat(labels).to(dev)
    del feats
    head = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 20)).to(dev)
    opt = torch.optim.SGD(head.parameters(), lr=0.01, momentum=0.9)
    record.watch([trunk, head], [opt])
    for epoch in range(4):
        loss = F.cross_entropy(head(X), Y)
        record.take("fwd", epoch, (X, Y))
        opt.zero_grad()
        loss.backward()
        record.take("bwd", epoch, (X, Y))
        opt.step()
        record.take("step", epoch, (X, Y))
