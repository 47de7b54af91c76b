"""Compiled and captured: a model by inductor, a whole step as a graph; activations computed again or put aside."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(3 * d, d)
        self.scale = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x + self.scale * self.down(F.gelu(self.up(self.norm(x))))


class Tabular(nn.Module):
    def __init__(self, columns=100, d=400, depth=2, out=5):
        super().__init__()
        self.stem, self.blocks = nn.Linear(columns, d), nn.Sequential(*(Residual(d) for _ in range(depth)))
        self.head = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, out))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


def compiled_tabular(record):
    """torch.compile on a plain model, the optimizer and the loss outside of it."""
    model = Tabular().cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    record.watch([model], [optimizer])
    for step in range(4):
        x, y = torch.randn(256, 100).cuda(), torch.randn(256, 5).cuda()
        loss = F.smooth_l1_loss(compiled(x), y)
        record.take("fwd", step, (x, y))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (x, y))
        optimizer.step()
        record.take("step", step, (x, y))


def captured_whole_step(record):
    """The recipe of PyTorch's notes: some steps on a side stream, then forward, backward and optimizer in one graph."""
    N, D_in, H, D_out = 128, 512, 1024, 64
    model = nn.Sequential(nn.Linear(D_in, H), nn.Dropout(p=0.2), nn.ReLU(), nn.Linear(H, H), nn.ReLU(), nn.Linear(H, D_out)).cuda()
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    static_input, static_target = torch.randn(N, D_in, device="cuda"), torch.randn(N, D_out, device="cuda")
    record.watch([model], [optimizer])
    record.hold("input", lambda: [static_input, static_target])
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for i in range(3):
            optimizer.zero_grad(set_to_none=True)
            y_pred = model(static_input)
            loss = loss_fn(y_pred, static_target)
            record.take("fwd", i)
            loss.backward()
            record.take("bwd", i)
            optimizer.step()
            record.take("step", i)
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(g):
        static_y_pred = model(static_input)
        static_loss = loss_fn(static_y_pred, static_target)
        static_loss.backward()
        optimizer.step()
    record.take("captured", 3)
    for i in range(4):
        data, target = torch.randn(N, D_in).cuda(), torch.randn(N, D_out).cuda()
        static_input.copy_(data)
        static_target.copy_(target)
        g.replay()
        record.take("replay", 4 + i, (data, target))
    static_loss.item()


class Stage(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv3d(i, o, 3, padding=1), nn.BatchNorm3d(o)
        self.conv2, self.bn2 = nn.Conv3d(o, o, 3, stride=2, padding=1), nn.BatchNorm3d(o)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


def volumes_in_little_memory(record):
    """A network of volumes: early stages compute their activations again, the late ones keep theirs in the host's memory."""
    early = nn.ModuleList([Stage(1, 16), Stage(16, 32)]).cuda()
    late = nn.ModuleList([Stage(32, 96), Stage(96, 160)]).cuda()
    head = nn.Linear(160, 3).cuda()
    parameters = [p for module in (early, late, head) for p in module.parameters()]
    optimizer = torch.optim.NAdam(parameters, lr=1e-4)
    record.watch([early, late, head], [optimizer])
    for step in range(4):
        scan, label = torch.rand(2, 1, 32, 32, 32).cuda(), torch.randint(0, 3, (2,)).cuda()
        x = scan
        for stage in early:
            x = checkpoint(stage, x, use_reentrant=False)
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            for stage in late:
                x = stage(x)
        loss = F.cross_entropy(head(x.mean((2, 3, 4))), label)
        del x
        record.take("fwd", step, (scan, label))
        optimizer.zero_grad()
        loss.backward()
        record.take("bwd", step, (scan, label))
        optimizer.step()
        record.take("step", step, (scan, label))
