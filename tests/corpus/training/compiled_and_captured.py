"""torch.compile as people call it, and CUDA graphs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Swiglu(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(d, h, bias=False), nn.Linear(h, d, bias=False), nn.Linear(d, h, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, d=160, heads=4):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj, self.ff = nn.Linear(d, 3 * d), nn.Linear(d, d), Swiglu(d, 3 * d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(att)
        return x + self.ff(self.n2(x))


def one_loop(record, model, run, optimizer, batch, loss_of, steps=4):
    record.watch([model], [optimizer])
    for s in range(steps):
        x, y = batch()
        loss = loss_of(run(x), y)
        record.take("fwd", s, (x, y))
        loss.backward()
        record.take("bwd", s, (x, y))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        record.take("step", s, (x, y))


def vectors(rows=64, d=256):
    return torch.randn(rows, d, device="cuda"), torch.randn(rows, d, device="cuda")


def inductor_mlp(record):
    model = nn.Sequential(nn.Linear(256, 640), nn.GELU(), nn.LayerNorm(640), nn.Linear(640, 256)).cuda()
    one_loop(record, model, torch.compile(model), torch.optim.AdamW(model.parameters()), vectors, F.mse_loss)


def inductor_layers(record):
    """Each layer is compiled by itself (regional compilation), under autocast."""
    model = nn.Sequential(*[Layer() for _ in range(2)]).cuda()
    for layer in model:
        layer.compile()

    def run(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(x)

    def batch():
        return torch.randn(4, 48, 160).cuda(), torch.randn(4, 48, 160).cuda()

    one_loop(record, model, run, torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9), batch,
             lambda out, y: F.mse_loss(out.float(), y))


def compiled_step(record):
    """Loss and model in one compiled function, and a compiled optimizer step."""
    model = Swiglu(256, 512).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-3))

    @torch.compile
    def loss_fn(x, y):
        return (model(x) - y).square().mean()

    @torch.compile(fullgraph=False)
    def update():
        opt.step()

    record.watch([model], [opt])
    for s in range(4):
        x, y = vectors()
        loss = loss_fn(x, y)
        record.take("fwd", s, (x, y))
        loss.backward()
        record.take("bwd", s, (x, y))
        update()
        opt.zero_grad()
        record.take("step", s, (x, y))


def reduce_overhead(record):
    """CUDA graphs by torch.compile."""
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")

    def run(x):
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(x)

    one_loop(record, model, run, torch.optim.SGD(model.parameters(), lr=0.1), vectors, F.mse_loss)


def graphed_callables(record):
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
    sample = torch.randn(64, 256, device="cuda")
    record.hold("input", lambda: [sample])  # what later inputs are copied to
    graphed = torch.cuda.make_graphed_callables(nn.Sequential(*model), (sample,))
    one_loop(record, model, graphed, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), vectors, F.mse_loss)


def captured_inference(record):
    """A forward captured once and replayed, as servers do for decoding."""
    model = nn.Sequential(*[Swiglu(256, 512) for _ in range(3)]).cuda().eval()
    static_x = torch.zeros(32, 256, device="cuda")
    record.watch([model])
    with torch.inference_mode(), record.free_choice():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(static_x)
        torch.cuda.current_stream().wait_stream(side)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            out = model(static_x)
        for request in range(5):
            static_x.copy_(torch.randn(32, 256))
            g.replay()
            record.take("replayed", request, (static_x,))
        out.cpu()
