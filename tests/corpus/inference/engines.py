"""Inference with keys and values kept from token to token, and servers."""
import asyncio
import concurrent.futures
import queue
import threading
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 800


def llama(**kw):
    from transformers import LlamaConfig, LlamaForCausalLM

    cfg = LlamaConfig(vocab_size=VOCAB, hidden_size=192, intermediate_size=512, num_hidden_layers=3, num_attention_heads=6,
                      num_key_value_heads=6, max_position_embeddings=512, **kw)
    return LlamaForCausalLM(cfg).eval().cuda()


def layers_of(cache):
    return [t for layer in cache.layers for t in (getattr(layer, "keys", None), getattr(layer, "values", None))
            if isinstance(t, torch.Tensor)]


@torch.no_grad()
def decode(record, model, cache, prompt_rows=4, prompt_len=96, tokens=5, **kw):
    ids = torch.randint(VOCAB, (prompt_rows, prompt_len)).cuda()
    record.watch([model])
    record.hold("kv_cache", lambda: layers_of(cache))
    with record.free_choice():
        out = model(input_ids=ids, past_key_values=cache, use_cache=True, **kw)
        record.take("prefill", 0, (ids,))
        for t in range(tokens):
            nxt = out.logits[:, -1:].argmax(-1)
            out = model(input_ids=nxt, past_key_values=cache, use_cache=True, **kw)
            record.note("kv_cache", layers_of(cache))
            record.take("token", t + 1, (ids,))


def dynamic_cache(record):
    from transformers import DynamicCache

    decode(record, llama(), DynamicCache())


def static_cache(record):
    from transformers import StaticCache

    model = llama().half()
    decode(record, model, StaticCache(config=model.config, max_cache_len=256))


def sliding_cache(record):
    """A model whose layers look back over a window only."""
    from transformers import DynamicCache, MistralConfig, MistralForCausalLM

    cfg = MistralConfig(vocab_size=VOCAB, hidden_size=192, intermediate_size=512, num_hidden_layers=3, num_attention_heads=6,
                        num_key_value_heads=2, sliding_window=64, max_position_embeddings=512)
    model = MistralForCausalLM(cfg).cuda().eval()
    decode(record, model, DynamicCache(config=cfg), prompt_rows=8)


# --- plain tensors --------------------------------------------------------------------------------------------------

class CatAttention(nn.Module):
    """nanoGPT with a `past`."""

    def __init__(self, d=192, heads=6):
        super().__init__()
        self.heads, self.c_attn, self.c_proj = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, past=None):
        b, t, d = x.size()
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.c_attn(x).split(d, dim=2))
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class NanoGPT(nn.Module):
    def __init__(self, layers=3, d=192):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, d)
        self.attn = nn.ModuleList(CatAttention(d) for _ in range(layers))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(layers))
        self.lm_head = nn.Linear(d, VOCAB, bias=False)

    def forward(self, idx, past=None):
        x, present = self.wte(idx), []
        for i, (attn, mlp) in enumerate(zip(self.attn, self.mlp)):
            a, kv = attn(x, past[i] if past else None)
            x = x + a
            x = x + mlp(x)
            present.append(kv)
        return self.lm_head(x[:, -1]), present

    @torch.no_grad()
    def generate(self, idx, n, each=lambda past: None):
        logits, past = self(idx)
        each(past)
        for _ in range(n):
            logits, past = self(logits.argmax(-1, keepdim=True), past)
            each(past)
        return logits


def grown_by_cat(record):
    model = NanoGPT().to("cuda").eval()
    record.watch([model])
    alive, count = [], iter(range(1000))
    record.hold("kv_cache", lambda: [t for kv in alive for t in kv])
    for request in range(3):
        ids = torch.randint(VOCAB, (6, 64 + 32 * request), device="cuda")

        def each(past):
            alive[:] = past
            record.note("kv_cache", [t for kv in past for t in kv])
            record.take("token", next(count), (ids,))

        with record.free_choice():
            model.generate(ids, 4, each)
        alive.clear()


class GPTFastAttention(nn.Module):
    """Keys and values are written by index into buffers that setup_caches() registers."""

    def __init__(self, d=256, heads=4):
        super().__init__()
        self.heads, self.wqkv, self.wo = heads, nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def setup(self, rows, length, dtype):
        shape = (rows, self.heads, length, self.wo.in_features // self.heads)
        self.register_buffer("k_cache", torch.zeros(shape, dtype=dtype, device="cuda"))
        self.register_buffer("v_cache", torch.zeros(shape, dtype=dtype, device="cuda"))

    def forward(self, x, pos):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.wqkv(x).chunk(3, -1))
        self.k_cache[:, :, pos] = k
        self.v_cache[:, :, pos] = v
        y = F.scaled_dot_product_attention(q, self.k_cache, self.v_cache)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


def registered_buffers(record):
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok = nn.Embedding(VOCAB, 256)
            self.layers = nn.ModuleList(GPTFastAttention() for _ in range(4))
            self.out = nn.Linear(256, VOCAB)

        def forward(self, idx, pos):
            x = self.tok(idx)
            for layer in self.layers:
                x = x + layer(x, pos)
            return self.out(x)

    model = Decoder().cuda().eval()
    record.watch([model])
    for layer in model.layers:
        layer.setup(4, 192, torch.float32)
    record.hold("kv_cache", lambda: [getattr(layer, n) for layer in model.layers for n in ("k_cache", "v_cache")])
    with torch.inference_mode(), record.free_choice():
        prompt = torch.randint(VOCAB, (4, 48)).cuda()
        logits = model(prompt, torch.arange(48, device="cuda"))
        record.take("prefill", 0, (prompt,))
        for i in range(6):
            logits = model(logits[:, -1:].argmax(-1), torch.tensor([48 + i], device="cuda"))
            record.take("token", i + 1, (prompt,))


class Engine:
    """Warm-up first, then the cache: one pool of blocks for each layer, handed out by a table."""

    def __init__(self, layers=4, d=192, heads=6, block=16, num_blocks=160):
        self.block, self.heads = block, heads
        self.embed = nn.Embedding(VOCAB, d).cuda()
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(layers)).cuda()
        self.out = nn.ModuleList(nn.Linear(d, d) for _ in range(layers)).cuda()
        self.head = nn.Linear(d, VOCAB).cuda()
        self.modules = [self.embed, self.qkv, self.out, self.head]
        self.kv_caches, self.free = [], list(range(num_blocks))
        self.num_blocks, self.d = num_blocks, d

    def profile_run(self):
        self.forward(torch.zeros(64, dtype=torch.long, device="cuda"), None)

    def allocate(self):
        for _ in self.qkv:
            self.kv_caches.append(torch.zeros(2, self.num_blocks, self.block, self.heads, self.d // self.heads, device="cuda"))

    def forward(self, tokens, slots):
        h = self.embed(tokens)
        for i, (qkv, out) in enumerate(zip(self.qkv, self.out)):
            q, k, v = qkv(h).chunk(3, -1)
            if slots is not None:
                flat = self.kv_caches[i].view(2, -1, self.d)
                flat[0].index_copy_(0, slots, k)
                flat[1].index_copy_(0, slots, v)
                k, v = flat[0][slots], flat[1][slots]
            h = h + out(torch.softmax(q @ k.T, -1) @ v)
        return self.head(h)

    def add_request(self, n):
        table = [self.free.pop() for _ in range(-(-n // self.block))]
        slots = [b * self.block + o for b in table for o in range(self.block)][:n]
        return table, torch.tensor(slots, device="cuda")


def paged_engine(record):
    engine = Engine()
    record.watch(engine.modules)
    record.hold("kv_cache", lambda: engine.kv_caches)
    with torch.inference_mode(), record.free_choice():
        engine.profile_run()
        record.take("warm", 0)
        engine.allocate()
        for r in range(5):
            table, slots = engine.add_request(40 + 8 * r)
            engine.forward(torch.randint(VOCAB, (len(slots),), device="cuda"), slots)
            record.take("served", r + 1)
            engine.free += table


class Int8KV:
    """Keys and values in int8 with scales, grown by halves."""

    def __init__(self):
        self.data, self.scales = {}, {}

    def append(self, name, t):
        s = t.abs().amax(-1, keepdim=True)
        q = (t / (s + 1e-6) * 127).to(torch.int8)
        if name in self.data:
            q, s = torch.cat([self.data[name], q], 1), torch.cat([self.scales[name], s], 1)
        self.data[name], self.scales[name] = q, s
        return q * s / 127

    def tensors(self):
        return [*self.data.values(), *self.scales.values()]


def quantized_by_hand(record):
    d, depth = 256, 3
    w = {f"{n}{i}": torch.randn(d, d, device="cuda") * 0.02 for i in range(depth) for n in "qkvo"}
    emb = torch.randn(VOCAB, d, device="cuda")
    cache = Int8KV()
    record.watch([types.SimpleNamespace(parameters=lambda: [*w.values(), emb], buffers=lambda: [])])
    record.hold("kv_cache", cache.tensors)

    def forward(ids):
        x = emb[ids]
        for i in range(depth):
            k, v = cache.append(f"k{i}", x @ w[f"k{i}"]), cache.append(f"v{i}", x @ w[f"v{i}"])
            x = x + torch.softmax((x @ w[f"q{i}"]) @ k.transpose(1, 2) / 16, -1) @ v @ w[f"o{i}"]
        return x @ emb.T

    with torch.no_grad(), record.free_choice():
        ids = torch.zeros(8, 100, dtype=torch.long, device="cuda")
        logits = forward(ids)
        record.take("prompt", 0, (ids,))
        for t in range(5):
            logits = forward(logits[:, -1:].argmax(-1))
            record.note("kv_cache", cache.tensors())
            record.take("token", t + 1, (ids,))


# --- servers --------------------------------------------------------------------------------------------------------

def thread_pool_server(record):
    """Each request generates in a thread of a pool; marks are set when all threads wait."""
    model = NanoGPT(layers=2).cuda().eval()
    record.watch([model])
    sessions, lock = {}, threading.Lock()
    record.hold("kv_cache", lambda: [t for past in sessions.values() for kv in past for t in kv])

    def handle(user, text):
        with torch.no_grad():
            ids = torch.tensor(text).view(2, -1).cuda()
            with lock:
                past = sessions.get(user)
            logits, past = model(ids, past)
            record.note("kv_cache", [t for kv in past for t in kv])
            with lock:
                sessions[user] = past
            return logits.argmax(-1).tolist()

    with concurrent.futures.ThreadPoolExecutor(3) as pool, record.free_choice():
        for turn in range(4):
            jobs = [pool.submit(handle, f"user{u}", [1] * 128) for u in range(3)]
            [j.result() for j in jobs]
            del jobs
            record.take("turn", turn)


def asyncio_embeddings(record):
    """Requests are put together to batches; no cache."""
    model = nn.Sequential(nn.Embedding(VOCAB, 256), nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda().eval()
    record.watch([model])
    served = []

    @torch.inference_mode()
    def embed(texts):
        ids = torch.tensor(texts, device="cuda")
        vectors = F.normalize(model(ids).mean(1), dim=-1)
        record.take("batch", len(served), (ids,))
        served.append(len(texts))
        return vectors.cpu()

    async def worker(inbox):
        while (first := await inbox.get()) is not None:
            batch = [first]
            while not inbox.empty() and len(batch) < 4:
                batch.append(inbox.get_nowait())
            done = await asyncio.to_thread(embed, [text for text, _ in batch])
            for (_, future), v in zip(batch, done):
                future.set_result(v)

    async def main():
        inbox = asyncio.Queue()
        task = asyncio.create_task(worker(inbox))
        for _ in range(4):
            futures = [asyncio.get_running_loop().create_future() for _ in range(4)]
            for f in futures:
                inbox.put_nowait(([3] * 64, f))
            await asyncio.gather(*futures)
        inbox.put_nowait(None)
        await task

    with record.free_choice():
        asyncio.run(main())


def encoder_decoder(record):
    """Translation: the encoder's keys and values are made once, the decoder's grow."""
    from transformers import BartConfig, BartForConditionalGeneration, DynamicCache, EncoderDecoderCache

    cfg = BartConfig(vocab_size=VOCAB, d_model=160, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                     decoder_attention_heads=4, encoder_ffn_dim=320, decoder_ffn_dim=320, max_position_embeddings=256)
    model = BartForConditionalGeneration(cfg).cuda().eval()
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    source = torch.randint(4, VOCAB, (8, 120)).cuda()
    record.watch([model])
    record.hold("kv_cache", lambda: layers_of(cache.self_attention_cache) + layers_of(cache.cross_attention_cache))
    with torch.no_grad(), record.free_choice():
        encoded = model.get_encoder()(source)
        token = torch.full((8, 1), 2, device="cuda")
        for t in range(5):
            out = model(encoder_outputs=encoded, decoder_input_ids=token, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
            record.note("kv_cache", layers_of(cache.self_attention_cache))
            record.take("token", t, (source,))


def model_worker(record):
    """A thread owns the model; others send images and wait for the answer."""
    inbox = queue.Queue()

    def serve():
        net = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
                            nn.Flatten(), nn.Linear(1024, 1000)).cuda().eval()
        record.watch([net])
        n = 0
        with torch.no_grad():
            while (job := inbox.get()) is not None:
                images, answer = job
                x = images.cuda()
                scores = net(x).softmax(-1)
                record.take("answer", n, (x,))
                n += 1
                answer.put(scores.topk(5).indices.tolist())

    thread = threading.Thread(target=serve, name="model")
    with record.free_choice():
        thread.start()
        for _ in range(4):
            answer = queue.Queue()
            inbox.put((torch.rand(8, 3, 96, 96), answer))
            answer.get()
        inbox.put(None)
        thread.join()
