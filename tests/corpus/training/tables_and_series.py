"""Recommenders, graphs and series."""
import torch
from torch import nn
from torch.nn import functional as F

device = torch.device("cuda")


# --- clicks -------------------------------------------------------------------------------------------------------------------

class DLRM(nn.Module):
    def __init__(self, dense=13, tables=(20000, 8000, 3000, 500, 100), d=32):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(dense, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, d), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, d, mode="sum") for n in tables)
        pairs = (len(tables) + 1) * len(tables) // 2
        self.top = nn.Sequential(nn.Linear(d + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("rows", torch.tril_indices(len(tables) + 1, len(tables) + 1, -1))

    def forward(self, dense, bags):
        x = self.bottom(dense)
        vectors = torch.stack([x, *(table(ids, offsets) for table, (ids, offsets) in zip(self.tables, bags))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.rows[0], self.rows[1]]], 1)).squeeze(1)


def dlrm_clicks(record):
    """Numbers, and five tables of summed embeddings with ids and offsets; Adagrad."""
    model = DLRM().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    criterion = nn.BCEWithLogitsLoss()
    record.watch([model], [optimizer])
    sizes = (20000, 8000, 3000, 500, 100)
    for step in range(5):
        dense, clicks = torch.rand(2048, 13).to(device), (torch.rand(2048) < 0.2).float().to(device)
        bags = [(torch.randint(n, (2048 * 4,)).to(device), torch.arange(0, 2048 * 4, 4).to(device)) for n in sizes]
        batch = (dense, clicks, bags)
        loss = criterion(model(dense, bags), clicks)
        record.take("fwd", step, batch)
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        record.take("step", step, batch)


# --- two towers ---------------------------------------------------------------------------------------------------------------

class Tower(nn.Module):
    def __init__(self, ids, features, d=64):
        super().__init__()
        self.table = nn.Embedding(ids, d, sparse=True)
        self.net = nn.Sequential(nn.Linear(d + features, 256), nn.ReLU(), nn.LayerNorm(256), nn.Linear(256, d))

    def forward(self, ids, features):
        return F.normalize(self.net(torch.cat([self.table(ids), features], 1)), dim=1)


def sparse_towers_in_batch_negatives(record):
    """Tables with sparse gradients have SparseAdam, the rest Adam; negatives come from the batch and from a queue of items."""
    users, items = Tower(30000, 16).to(device), Tower(20000, 24).to(device)
    tables = [users.table.weight, items.table.weight]
    dense = [p for tower in (users, items) for n, p in tower.named_parameters() if n != "table.weight"]
    optimizers = [torch.optim.SparseAdam(tables, lr=1e-3), torch.optim.Adam(dense, lr=1e-3)]
    queue = F.normalize(torch.randn(4096, 64), dim=1).to(device)
    record.watch([users, items], optimizers)
    record.hold("open", lambda: [queue])
    for step in range(5):
        batch = {"user": torch.randint(30000, (1024,)), "user_features": torch.rand(1024, 16),
                 "item": torch.randint(20000, (1024,)), "item_features": torch.rand(1024, 24)}
        batch = {k: v.to(device) for k, v in batch.items()}
        u, i = users(batch["user"], batch["user_features"]), items(batch["item"], batch["item_features"])
        logits = torch.cat([u @ i.t(), u @ queue.clone().t()], 1) / 0.05
        labels = torch.arange(1024, device=device)
        loss = F.cross_entropy(logits, labels)
        record.take("fwd", step, (batch, labels))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (batch, labels))
        for optimizer in optimizers:
            optimizer.step()
        queue[step % 4 * 1024:(step % 4 + 1) * 1024] = i.detach()
        record.take("step", step, (batch, labels))


# --- sessions -----------------------------------------------------------------------------------------------------------------

class ScheduleFreeSGD:
    """Weights y for gradients, z for steps, x as their average; no optimizer of torch."""

    def __init__(self, params, lr=0.5, beta=0.9):
        self.params, self.lr, self.beta, self.k = list(params), lr, beta, 0
        self.z = [p.detach().clone() for p in self.params]
        self.x = [p.detach().clone() for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.k += 1
        for p, z, x in zip(self.params, self.z, self.x):
            z.sub_(p.grad, alpha=self.lr)
            x.lerp_(z, 1 / self.k)
            p.copy_(z.lerp(x, self.beta))


class SasRec(nn.Module):
    def __init__(self, items=8000, d=128, length=50, layers=2):
        super().__init__()
        self.items, self.places, self.drop = nn.Embedding(items, d, padding_idx=0), nn.Embedding(length, d), nn.Dropout(0.2)
        layer = nn.TransformerEncoderLayer(d, 2, 4 * d, dropout=0.2, batch_first=True, norm_first=True)
        self.layers, self.norm = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.LayerNorm(d)
        self.register_buffer("future", torch.triu(torch.ones(length, length, dtype=torch.bool), 1))

    def forward(self, seen):
        x = self.items(seen) * self.items.embedding_dim ** 0.5 + self.places.weight[None, :seen.shape[1]]
        return self.norm(self.layers(self.drop(x), mask=self.future))


def sessions_schedule_free(record):
    """The next item of a session against one that was not bought; an optimizer without a schedule, by hand."""
    model = SasRec().to(device)
    optimizer = ScheduleFreeSGD(model.parameters())
    record.watch([model])
    record.hold("optimizer_state", lambda: [optimizer.z, optimizer.x])
    for step in range(5):
        seen, bought, other = (torch.randint(1, 8000, (32, 50)).to(device) for _ in range(3))
        hidden = model(seen)
        good, bad = ((hidden * model.items(ids)).sum(-1) for ids in (bought, other))
        loss = F.softplus(bad - good).mean()
        record.take("fwd", step, (seen, bought, other))
        loss.backward()
        record.take("bwd", step, (seen, bought, other))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (seen, bought, other))


# --- molecules ----------------------------------------------------------------------------------------------------------------

class Messages(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(3 * d, d), nn.SiLU(), nn.Linear(d, d))
        self.node = nn.GRUCell(d, d)

    def forward(self, h, e, source, target):
        m = self.edge(torch.cat([h[source], h[target], e], 1))
        return self.node(torch.zeros_like(h).index_add_(0, target, m), h), e + m


class MoleculeNet(nn.Module):
    def __init__(self, d=128, layers=4):
        super().__init__()
        self.atoms, self.bonds = nn.Embedding(100, d), nn.Linear(16, d)
        self.layers = nn.ModuleList(Messages(d) for _ in range(layers))
        self.out = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 12))

    def forward(self, g):
        h, e = self.atoms(g["z"]), self.bonds(g["edge_attr"])
        for layer in self.layers:
            h, e = layer(h, e, g["source"], g["target"])
        pooled = h.new_zeros(g["graphs"], h.shape[1]).index_add_(0, g["graph"], h)
        return self.out(pooled)


def molecules_message_passing(record):
    """Molecules of different sizes are joined to one graph; a validation after each third step; plateau schedule."""
    model = MoleculeNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    record.watch([model], [optimizer])

    def collate(graphs=64):
        sizes = torch.randint(10, 30, (graphs,))
        nodes, edges = int(sizes.sum()), 4 * int(sizes.sum())
        data = {"z": torch.randint(100, (nodes,)), "edge_attr": torch.rand(edges, 16), "source": torch.randint(nodes, (edges,)),
                "target": torch.randint(nodes, (edges,)), "graph": torch.repeat_interleave(torch.arange(graphs), sizes),
                "y": torch.randn(graphs, 12)}
        return {k: v.to(device) for k, v in data.items()} | {"graphs": graphs}

    for step in range(6):
        g = collate()
        batch = [v for v in g.values() if isinstance(v, torch.Tensor)]
        loss = F.l1_loss(model(g), g["y"])
        record.take("fwd", step, batch)
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, batch)
        optimizer.step()
        record.take("step", step, batch)
        if step % 3 == 2:
            with torch.no_grad(), record.free_choice():
                held_out = collate(32)
                record.note("input", [v for v in held_out.values() if isinstance(v, torch.Tensor)])
                plateau.step(F.l1_loss(model(held_out), held_out["y"]).item())
            del held_out


# --- a long series ------------------------------------------------------------------------------------------------------------

class SeriesLSTM(nn.Module):
    def __init__(self, variables=24, hidden=384, layers=2):
        super().__init__()
        self.lstm = nn.LSTM(variables, hidden, layers, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 3 * variables))

    def forward(self, x, state):
        h, state = self.lstm(x, state)
        return self.head(h).unflatten(-1, (3, -1)), state


def quantile_series_with_state(record):
    """Windows of long series in their order; the state is carried from window to window; quantile loss, SGD."""
    series = torch.randn(32, 6 * 40 + 1, 24).cumsum(1).to(device)
    model = SeriesLSTM().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    quantiles = torch.tensor([0.1, 0.5, 0.9], device=device).view(1, 1, 3, 1)
    record.watch([model], [optimizer])
    record.hold("input", lambda: [series])
    state = None
    record.hold("open", lambda: [state, quantiles])
    for step in range(6):
        x, y = series[:, 40 * step:40 * step + 40], series[:, 40 * step + 1:40 * step + 41]
        predicted, state = model(x, state)
        state = tuple(s.detach() for s in state)
        error = y.unsqueeze(2) - predicted
        loss = torch.max(quantiles * error, (quantiles - 1) * error).mean()
        record.take("fwd", step, (x, y))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        record.take("bwd", step, (x, y))
        optimizer.step()
        record.take("step", step, (x, y))
