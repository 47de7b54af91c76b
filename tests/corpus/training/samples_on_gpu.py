"""Data that lives on the device: graphs, transitions, tokens, latents, interactions."""
import copy
import dataclasses

import torch
from torch import nn
from torch.nn import functional as F


# --- a graph ---------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Graph:
    """Nodes with features, and a table of sampled neighbours."""

    features: torch.Tensor
    labels: torch.Tensor
    neighbours: torch.Tensor
    train_mask: torch.Tensor

    @classmethod
    def random(cls, nodes=9000, width=160, degree=12, classes=30):
        return cls(torch.randn(nodes, width), torch.randint(classes, (nodes,)), torch.randint(nodes, (nodes, degree)),
                   torch.rand(nodes) < 0.5)

    def to(self, device):
        return Graph(**{field.name: getattr(self, field.name).to(device) for field in dataclasses.fields(self)})

    def tensors(self):
        return [getattr(self, field.name) for field in dataclasses.fields(self)]


class SageLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.others = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, gathered):
        return self.own(x) + self.others(gathered.mean(1))


class Sage(nn.Module):
    def __init__(self, width=160, hidden=256, classes=30):
        super().__init__()
        self.first, self.second = SageLayer(width, hidden), SageLayer(hidden, classes)

    def forward(self, seeds, hop, features):
        """SEEDS: nodes of the batch; HOP: their neighbours; each with its own mean over neighbours."""
        h = F.relu(self.first(features[seeds], features[hop]))
        near = F.relu(self.first(features[hop[:, 0]], features[hop[:, 1:4]]))
        return self.second(h, near.unsqueeze(1))


def sampled_neighbours(record):
    """GraphSAGE in batches of nodes; features and neighbours lie on the device as a whole."""
    torch.manual_seed(11)
    graph = Graph.random().to("cuda")
    model = Sage().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=5e-4)
    record.watch([model], [optimizer])
    record.hold("input", graph.tensors)
    for it in range(5):
        seeds = torch.randint(len(graph.labels), (256,)).cuda()
        hop = graph.neighbours[seeds]
        loss = F.cross_entropy(model(seeds, hop, graph.features), graph.labels[seeds])
        record.take("fwd", it, (seeds, hop))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", it, (seeds, hop))
        optimizer.step()
        record.take("step", it, (seeds, hop))


# --- transitions -------------------------------------------------------------------------------------------------------

class ReplayMemory:
    """Preallocated on the device; the oldest are overwritten."""

    def __init__(self, capacity, frame, device):
        self.frames = torch.zeros(capacity, *frame, dtype=torch.uint8, device=device)
        self.next_frames = torch.zeros(capacity, *frame, dtype=torch.uint8, device=device)
        self.actions = torch.zeros(capacity, dtype=torch.long, device=device)
        self.rewards = torch.zeros(capacity, device=device)
        self.capacity, self.size, self.head = capacity, 0, 0

    def push(self, frames, actions, rewards, next_frames):
        rows = slice(self.head, self.head + len(frames))
        self.frames[rows], self.next_frames[rows] = frames, next_frames
        self.actions[rows], self.rewards[rows] = actions, rewards
        self.head = (self.head + len(frames)) % self.capacity
        self.size = min(self.size + len(frames), self.capacity)

    def sample(self, n):
        rows = torch.randint(self.size, (n,)).to(self.frames.device)
        return self.frames[rows], self.actions[rows], self.rewards[rows], self.next_frames[rows]

    def tensors(self):
        return [self.frames, self.next_frames, self.actions, self.rewards]


class QNetwork(nn.Module):
    def __init__(self, actions=18):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Flatten(),
                                   nn.Linear(64 * 6 * 6, 384), nn.ReLU())
        self.advantage, self.value = nn.Linear(384, actions), nn.Linear(384, 1)

    def forward(self, frames):
        h = self.trunk(frames.float() / 255)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


def deep_q_learning(record):
    """Acts, remembers, learns; the target network follows from time to time."""
    device = torch.device("cuda", 0)
    online = QNetwork().to(device)
    target = copy.deepcopy(online).requires_grad_(False).eval()
    memory = ReplayMemory(256, (4, 64, 64), device)
    optimizer = torch.optim.AdamW(online.parameters(), lr=1e-4, amsgrad=True)
    record.watch([online, target], [optimizer])
    record.hold("input", memory.tensors)
    observed = torch.randint(256, (32, 4, 64, 64), dtype=torch.uint8).to(device)
    record.hold("input", lambda: [observed])
    for t in range(5):
        with torch.no_grad(), record.free_choice():
            actions = online(observed).argmax(1)
        rewards = torch.randn(32).to(device)
        following = torch.randint(256, (32, 4, 64, 64), dtype=torch.uint8).to(device)
        memory.push(observed, actions, rewards, following)
        observed = following
        batch = memory.sample(48)
        frames, actions, rewards, next_frames = batch
        with torch.no_grad(), record.free_choice():
            goal = rewards + 0.99 * target(next_frames).max(1).values
        q = online(frames).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, goal)
        record.take("fwd", t, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 10)
        record.take("bwd", t, batch)
        optimizer.step()
        if t % 2:
            target.load_state_dict(online.state_dict())
        record.take("step", t, batch)


# --- tokens ------------------------------------------------------------------------------------------------------------

class CausalBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.ln1, self.ln2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.attn(self.ln1(x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class LittleGPT(nn.Module):
    def __init__(self, vocab=1200, d=144, layers=2, length=64):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.h = nn.ModuleList(CausalBlock(d, 4) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
        self.head.weight = self.wte.weight
        self.register_buffer("pos", torch.arange(length), persistent=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(self.pos[:idx.shape[1]])
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), targets.flatten())


def token_stream(record):
    """The corpus is one long tensor on the device, and a batch is some of its slices."""
    corpus = {"train": torch.randint(1200, (900_000,)).cuda(), "val": torch.randint(1200, (60_000,)).cuda()}
    model = LittleGPT().cuda()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0}], lr=6e-4)
    record.watch([model], [optimizer])
    record.hold("input", lambda: corpus)

    def get_batch(split, rows=6, length=64):
        starts = torch.randint(len(corpus[split]) - length - 1, (rows,)).tolist()
        x = torch.stack([corpus[split][s:s + length] for s in starts])
        y = torch.stack([corpus[split][s + 1:s + 1 + length] for s in starts])
        return x, y

    for it in range(4):
        if it == 2:
            model.eval()
            with torch.no_grad(), record.free_choice():
                for _ in range(2):
                    val = get_batch("val")
                    model(*val)
                record.take("val", it, val)
            model.train()
            del val
        x, y = get_batch("train")
        loss = model(x, y)
        record.take("fwd", it, (x, y))
        loss.backward()
        record.take("bwd", it, (x, y))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        record.take("step", it, (x, y))


# --- latents ------------------------------------------------------------------------------------------------------------

class Denoiser(nn.Module):
    def __init__(self, channels=4, width=72):
        super().__init__()
        self.cond, self.inp = nn.Linear(96, width), nn.Conv2d(channels, width, 3, padding=1)
        self.res = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.norm, self.out = nn.GroupNorm(8, width), nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, z, cond):
        h = self.inp(z) + self.cond(cond)[:, :, None, None]
        for conv in self.res:
            h = h + conv(F.silu(h))
        return self.out(self.norm(h))


def latents_computed_once(record):
    """An encoder runs over all pictures and goes; what it gave is the data set, kept in half precision."""
    torch.manual_seed(7)
    encoder = nn.Sequential(nn.Conv2d(3, 64, 4, 4), nn.SiLU(), nn.Conv2d(64, 128, 3, padding=1), nn.SiLU(),
                            nn.Conv2d(128, 4, 1)).cuda().eval().requires_grad_(False)
    record.watch([encoder])
    cache = []
    record.hold("input", lambda: cache)
    with torch.inference_mode(), record.free_choice():
        for part in range(6):
            pixels = torch.rand(16, 3, 64, 64).to("cuda")
            cache.append(encoder(pixels).half())
            record.take("encoded", part, (pixels,))
    del encoder, pixels
    conditions = torch.randn(96, 96).half().cuda()
    record.hold("input", lambda: [conditions])
    net = Denoiser().cuda()
    opt = torch.optim.NAdam(net.parameters())
    record.watch([net], [opt])
    for it in range(6, 10):
        z, cond = cache[it % 6].float(), conditions[it % 6 * 16:it % 6 * 16 + 16].float()
        noise = torch.randn_like(z)
        loss = F.mse_loss(net(z + noise, cond), noise)
        record.take("fwd", it, (z, cond, noise))
        loss.backward()
        record.take("bwd", it, (z, cond, noise))
        opt.step()
        opt.zero_grad()
        record.take("step", it, (z, cond, noise))


# --- interactions ---------------------------------------------------------------------------------------------------------

class TwoTowers(nn.Module):
    def __init__(self, users=6000, items=9000, d=64):
        super().__init__()
        self.user_table = nn.Embedding(users, d)
        self.item_bag = nn.EmbeddingBag(items, d, mode="mean")
        self.user_tower = nn.Sequential(nn.Linear(2 * d, 128), nn.ReLU(), nn.Linear(128, d))
        self.item_tower = nn.Sequential(nn.Linear(d, 128), nn.ReLU(), nn.Linear(128, d))

    def users(self, ids, histories):
        return self.user_tower(torch.cat([self.user_table(ids), self.item_bag(histories)], 1))

    def items(self, ids):
        return self.item_tower(self.item_bag(ids.unsqueeze(1)))


def two_tower_recommender(record):
    """Histories of all users lie on the device; negatives come from the batch."""
    torch.manual_seed(5)
    histories = torch.randint(9000, (6000, 40)).cuda()
    clicked = torch.randint(9000, (6000,)).cuda()
    popularity = torch.rand(9000).cuda()
    model = TwoTowers().to("cuda")
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    record.watch([model], [opt])
    record.hold("input", lambda: [histories, clicked, popularity])
    for it, users in enumerate(torch.randperm(6000)[:5 * 512].split(512)):
        users = users.to("cuda", non_blocking=True)
        batch = {"user": users, "history": histories[users], "item": clicked[users]}
        logits = model.users(batch["user"], batch["history"]) @ model.items(batch["item"]).t()
        logits = logits - popularity[batch["item"]].log()
        loss = F.cross_entropy(logits / 0.07, torch.arange(512, device="cuda"))
        record.take("fwd", it, batch)
        opt.zero_grad()
        loss.backward()
        record.take("bwd", it, batch)
        opt.step()
        record.take("step", it, batch)
