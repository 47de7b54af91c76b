"""torch.compile and CUDA graphs."""
import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def inductor_beside(record):
    """What inductor writes goes beside the truth, and it compiles in this process."""
    from torch._inductor import config

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(os.path.dirname(record.path), "inductor")
    config.compile_threads = 1


def steps(record, model, optimizer, forward, batches):
    record.watch([model], [optimizer])
    for step, (x, y) in enumerate(batches):
        loss = forward(x, y)
        record.take("fwd", step, (x, y))
        loss.backward()
        record.take("bwd", step, (x, y))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        record.take("step", step, (x, y))


# --- a model ------------------------------------------------------------------------------------------------------------

class Separable(nn.Module):
    """Depthwise, then pointwise, squeezed and excited."""

    def __init__(self, width):
        super().__init__()
        self.depth = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.GroupNorm(1, width)
        self.up, self.down = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(3 * width, width, 1)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        h = self.down(F.gelu(self.up(self.norm(self.depth(x)))))
        return x + h * self.gate(h.mean((2, 3)))[:, :, None, None].sigmoid()


def compiled_segmenter(record):
    """A picture model, compiled as a whole, in bfloat16 by autocast; the loss is not compiled."""
    inductor_beside(record)
    model = nn.Sequential(nn.Conv2d(3, 80, 2, 2), Separable(80), nn.Conv2d(80, 12, 1)).cuda()
    compiled = torch.compile(model)

    def forward(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = compiled(x)
        return F.cross_entropy(logits.float(), y)

    batches = ((torch.rand(6, 3, 48, 48).cuda(), torch.randint(12, (6, 24, 24)).cuda()) for _ in range(4))
    steps(record, model, torch.optim.AdamW(model.parameters(), lr=2e-3), forward, batches)


# --- a step of several lengths ---------------------------------------------------------------------------------------------

class Tcn(nn.Module):
    """Dilated convolutions over a series."""

    def __init__(self, channels=16, width=288, depth=2):
        super().__init__()
        self.inp = nn.Linear(channels, width)
        self.convs = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.out = nn.Linear(width, channels)

    def forward(self, series):
        h = self.inp(series)
        for i, conv in enumerate(self.convs):
            past = F.pad(h, (0, 0, 2**i, 0))[:, :h.shape[1]]
            h = h + F.silu(conv(torch.cat([h, past], -1)))
        return self.out(h)


def compiled_forecast(record):
    """Forward and loss in one compiled function, for series of any length."""
    inductor_beside(record)
    model = Tcn().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    @torch.compile(dynamic=True)
    def objective(series, following):
        return F.huber_loss(model(series), following)

    record.watch([model], [optimizer])
    for step, length in enumerate((64, 96, 80, 112, 96)):
        series, following = torch.randn(16, length, 16).cuda(), torch.randn(16, length, 16).cuda()
        loss = objective(series, following)
        record.take("fwd", step, (series, following))
        loss.backward()
        record.take("bwd", step, (series, following))
        optimizer.step()
        optimizer.zero_grad()
        record.take("step", step, (series, following))


# --- decoding -----------------------------------------------------------------------------------------------------------------

class CachedLayer(nn.Module):
    def __init__(self, d, heads, rows, length):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.ffn = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))
        self.register_buffer("k_cache", torch.zeros(rows, heads, length, d // heads), persistent=False)
        self.register_buffer("v_cache", torch.zeros(rows, heads, length, d // heads), persistent=False)

    def forward(self, x, pos, mask):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        self.k_cache.index_copy_(2, pos, k)
        self.v_cache.index_copy_(2, pos, v)
        out = F.scaled_dot_product_attention(q, self.k_cache, self.v_cache, attn_mask=mask)
        x = x + self.proj(out.transpose(1, 2).flatten(2))
        return x + self.ffn(x)


class FastDecoder(nn.Module):
    def __init__(self, vocab=700, d=192, layers=2, heads=6, rows=4, length=160):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(CachedLayer(d, heads, rows, length) for _ in range(layers))
        self.head = nn.Linear(d, vocab, bias=False)
        self.register_buffer("causal", torch.tril(torch.ones(length, length, dtype=torch.bool)), persistent=False)

    def forward(self, ids, pos):
        x, mask = self.embed(ids), self.causal[pos][None, None]
        for layer in self.layers:
            x = layer(x, pos, mask)
        return self.head(x[:, -1])


def compiled_decoding(record):
    """The prompt runs eagerly; the function for one token is compiled with mode="reduce-overhead"."""
    inductor_beside(record)
    model = FastDecoder().cuda().eval()
    record.watch([model])
    record.hold("kv_cache", lambda: [[layer.k_cache, layer.v_cache] for layer in model.layers])

    def decode_one(ids, pos):
        return model(ids, pos).argmax(-1, keepdim=True)

    decode_one = torch.compile(decode_one, mode="reduce-overhead", fullgraph=True)
    with torch.no_grad(), record.free_choice():
        prompt = torch.randint(700, (4, 100)).cuda()
        token = model(prompt, torch.arange(100, device="cuda")).argmax(-1, keepdim=True)
        pos = torch.tensor([100], device="cuda")
        record.take("prefill", 0, (prompt, pos, token))
        for step in range(1, 7):
            torch.compiler.cudagraph_mark_step_begin()
            token = decode_one(token, pos).clone()
            pos += 1
            record.take("token", step, (prompt, pos, token))


# --- graphs by hand ---------------------------------------------------------------------------------------------------------------

class GraphRunner:
    """A graph for each size of batch, the largest first; all share one pool and one input."""

    def __init__(self, model, sizes, width):
        self.model, self.graphs, self.outputs = model, {}, {}
        self.static_input = torch.zeros(max(sizes), width, device="cuda")
        self.pool = None
        for size in sorted(sizes, reverse=True):
            self.capture(size)

    def capture(self, size):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.model(self.static_input[:size])
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.outputs[size] = self.model(self.static_input[:size])
        self.pool = self.pool or graph.pool()
        self.graphs[size] = graph

    def __call__(self, x):
        size = min(size for size in self.graphs if size >= len(x))
        self.static_input[:len(x)].copy_(x)
        self.graphs[size].replay()
        return self.outputs[size][:len(x)]


def graphs_by_batch_size(record):
    """A ranking model behind captured graphs: requests are rounded up to the next captured size."""
    model = nn.Sequential(nn.Linear(320, 1280), nn.ReLU(), nn.Linear(1280, 1280), nn.ReLU(), nn.Linear(1280, 1)).cuda().eval()
    record.watch([model])
    with torch.inference_mode(), record.free_choice():
        runner = GraphRunner(model, (16, 64, 256), 320)
        record.take("captured", 0, (runner.static_input,))
        for request, rows in enumerate((9, 200, 60, 16, 130), 1):
            x = torch.randn(rows, 320).cuda()
            scores = runner(x)
            record.take("replayed", request, (x, runner.static_input))
            scores.cpu()
        del scores


# --- checkpoints ---------------------------------------------------------------------------------------------------------------------

class GatedBlock(nn.Module):
    def __init__(self, d=256):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.value, self.gate, self.back = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x):
        h = self.norm(x)
        return x + self.back(self.value(h) * F.silu(self.gate(h)))


class Checkpointed(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(GatedBlock() for _ in range(depth))
        self.out = nn.Linear(256, 64)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.out(x)


def compiled_with_checkpoints(record):
    """A checkpoint round each block becomes part of the compiled graph."""
    inductor_beside(record)
    model = Checkpointed().cuda()
    compiled = torch.compile(model)
    batches = ((torch.randn(160, 256).cuda(), torch.randn(160, 64).cuda()) for _ in range(4))
    steps(record, model, torch.optim.Adam(model.parameters(), lr=1e-3), lambda x, y: F.mse_loss(compiled(x), y), batches)
