"""Data that lives on the device as a whole, and tables of embeddings."""
import torch
from torch import nn
from torch.nn import functional as F


# --- a graph of citations ------------------------------------------------------------------------------------------------------

class Graph:
    """Features, edges, labels and masks, moved together."""

    def __init__(self, nodes=1500, edges=4000, features=512, classes=7):
        self.x = torch.rand(nodes, features)
        self.edge_index = torch.randint(0, nodes, (2, edges))
        self.y = torch.randint(0, classes, (nodes,))
        order = torch.randperm(nodes)
        self.train_mask, self.test_mask = order < nodes // 2, order >= nodes // 2

    def to(self, device):
        for key, value in vars(self).items():
            setattr(self, key, value.to(device))
        return self


class SAGEConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin_l, self.lin_r = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, edge_index):
        source, target = edge_index
        total = torch.zeros_like(x).index_add_(0, target, x[source])
        degree = torch.zeros(len(x), device=x.device).index_add_(0, target, torch.ones(len(source), device=x.device))
        return self.lin_l(total / degree.clamp(min=1).unsqueeze(-1)) + self.lin_r(x)


class SAGE(nn.Module):
    def __init__(self, i, hidden, o):
        super().__init__()
        self.conv1, self.conv2 = SAGEConv(i, hidden), SAGEConv(hidden, o)
        self.norm = nn.BatchNorm1d(hidden)

    def forward(self, x, edge_index):
        x = F.dropout(F.relu(self.norm(self.conv1(x, edge_index))), p=0.5, training=self.training)
        return self.conv2(x, edge_index).log_softmax(dim=-1)


def citations_whole_graph(record):
    """Each epoch is one pass over the whole graph, then a test; the loss is over a mask."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Graph().to(device)
    model = SAGE(512, 1024, 7).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    record.watch([model], [optimizer])
    record.hold("input", lambda: vars(data))

    def train(epoch):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = F.nll_loss(out[data.train_mask], data.y[data.train_mask])
        record.take("fwd", epoch)
        loss.backward()
        record.take("bwd", epoch)
        optimizer.step()
        record.take("step", epoch)
        return float(loss)

    @torch.no_grad()
    def test(epoch):
        model.eval()
        with record.free_choice():
            pred = model(data.x, data.edge_index).argmax(dim=-1)
            right = int((pred[data.test_mask] == data.y[data.test_mask]).sum())
        record.take("test", epoch)
        return right

    for epoch in range(4):
        train(epoch)
        test(epoch)


# --- clicks ----------------------------------------------------------------------------------------------------------------------

class DLRM(nn.Module):
    def __init__(self, rows=(20000, 8000, 3000, 500), d=64, dense=13):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, d, mode="sum") for n in rows)
        self.bottom = nn.Sequential(nn.Linear(dense, 256), nn.ReLU(), nn.Linear(256, d), nn.ReLU())
        pairs = (len(rows) + 1) * len(rows) // 2
        self.top = nn.Sequential(nn.Linear(d + pairs, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("pairs", torch.triu_indices(len(rows) + 1, len(rows) + 1, offset=1), persistent=False)

    def forward(self, dense, indices, offsets):
        x = self.bottom(dense)
        all_features = torch.stack([x] + [table(i, o) for table, i, o in zip(self.tables, indices, offsets)], dim=1)
        dots = torch.bmm(all_features, all_features.transpose(1, 2))
        return self.top(torch.cat([x, dots[:, self.pairs[0], self.pairs[1]]], dim=1)).squeeze(1)


def clicks_with_embedding_bags(record):
    """Bags of different lengths; Adagrad for the tables, Adam for the rest."""
    model = DLRM().cuda()
    sparse = torch.optim.Adagrad(model.tables.parameters(), lr=0.01)
    dense_optimizer = torch.optim.Adam([*model.bottom.parameters(), *model.top.parameters()], lr=1e-3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0)).cuda()
    record.watch([model, criterion], [sparse, dense_optimizer])
    for step in range(5):
        lengths = [torch.randint(1, 6, (128,)) for _ in model.tables]
        indices = [torch.randint(0, table.num_embeddings, (int(n.sum()),)) for table, n in zip(model.tables, lengths)]
        offsets = [F.pad(n.cumsum(0)[:-1], (1, 0)) for n in lengths]
        batch = {"dense": torch.rand(128, 13), "indices": indices, "offsets": offsets, "label": torch.randint(0, 2, (128,)).float()}
        batch = {key: [t.cuda() for t in value] if isinstance(value, list) else value.cuda() for key, value in batch.items()}
        logits = model(batch["dense"], batch["indices"], batch["offsets"])
        loss = criterion(logits, batch["label"])
        record.take("fwd", step, batch)
        sparse.zero_grad()
        dense_optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, batch)
        sparse.step()
        dense_optimizer.step()
        record.take("step", step, batch)
