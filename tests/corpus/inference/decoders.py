"""Inference: decoders with their keys and values, and servers."""
import concurrent.futures
import dataclasses
import queue
import threading
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

VOCAB = 900


# --- a decoder that takes any store of keys and values ------------------------------------------------------------------

class Attend(nn.Module):
    def __init__(self, d, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, d // heads
        self.wq = nn.Linear(d, d, bias=False)
        self.wk, self.wv = (nn.Linear(d, kv_heads * self.size, bias=False) for _ in range(2))
        self.wo = nn.Linear(d, d, bias=False)

    def forward(self, x, store, layer):
        split = lambda t, n: t.unflatten(-1, (n, self.size)).transpose(1, 2)
        q, k, v = split(self.wq(x), self.heads), split(self.wk(x), self.kv_heads), split(self.wv(x), self.kv_heads)
        k, v = store.extend(layer, k, v)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=x.shape[1] > 1, enable_gqa=self.heads != self.kv_heads)
        return self.wo(out.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self, d=192, layers=3, heads=6, kv_heads=6):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d)
        self.attention = nn.ModuleList(Attend(d, heads, kv_heads) for _ in range(layers))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(d, 3 * d), nn.SiLU(), nn.Linear(3 * d, d)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(d) for _ in range(2 * layers + 1))
        self.unembed = nn.Linear(d, VOCAB, bias=False)

    def forward(self, ids, store):
        x = self.embed(ids)
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlp)):
            x = x + attention(self.norms[2 * i](x), store, i)
            x = x + mlp(self.norms[2 * i + 1](x))
        return self.unembed(self.norms[-1](x))


class GrowingStore:
    """A list of tuples; each token makes them anew."""

    def __init__(self):
        self.pairs = []

    def extend(self, layer, k, v):
        if layer == len(self.pairs):
            self.pairs.append((k.contiguous(), v.contiguous()))
        else:
            past_k, past_v = self.pairs[layer]
            self.pairs[layer] = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
        return self.pairs[layer]

    def crop(self, length):
        self.pairs = [(k[:, :, :length].clone(), v[:, :, :length].clone()) for k, v in self.pairs]

    def tensors(self):
        return self.pairs


class FixedStore:
    """As long as it will ever be; tokens are written to their places."""

    def __init__(self, model, rows, length, dtype=torch.float32):
        first = model.attention[0]
        shape = rows, first.kv_heads, length, first.size
        self.k = [torch.zeros(shape, dtype=dtype, device="cuda") for _ in model.attention]
        self.v = [torch.zeros(shape, dtype=dtype, device="cuda") for _ in model.attention]
        self.filled = 0

    def extend(self, layer, k, v):
        end = self.filled + k.shape[2]
        self.k[layer][:, :, self.filled:end] = k
        self.v[layer][:, :, self.filled:end] = v
        if layer == len(self.k) - 1:
            self.filled = end
        return self.k[layer][:, :, :end], self.v[layer][:, :, :end]

    def tensors(self):
        return [self.k, self.v]


# --- transformers, beams ----------------------------------------------------------------------------------------------------

def tensors_of(cache):
    return [t for layer in cache.layers for t in (getattr(layer, "keys", None), getattr(layer, "values", None))
            if isinstance(t, torch.Tensor)]


@torch.inference_mode()
def beam_search(record):
    """Qwen2 follows three beams; the cache is put into the beams' order after each token."""
    from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(vocab_size=VOCAB, hidden_size=192, intermediate_size=448, num_hidden_layers=3, num_attention_heads=6,
                         num_key_value_heads=3, max_position_embeddings=256)
    model = Qwen2ForCausalLM(config).cuda().eval()
    record.watch([model])
    beams, caches = 3, []
    record.hold("kv_cache", lambda: [tensors_of(cache) for cache in caches])
    step = 0
    for length in (72, 120):
        prompt = torch.randint(VOCAB, (4, length)).cuda()
        with record.free_choice():
            caches.append(DynamicCache(config=config))
            logits = model(prompt, past_key_values=caches[0]).logits[:, -1]
            record.note("kv_cache", tensors_of(caches[0]))
            caches[0].batch_repeat_interleave(beams)
            record.note("kv_cache", tensors_of(caches[0]))
            scores, ids = logits.log_softmax(-1).topk(beams)
            for _ in range(4):
                logits = model(ids.reshape(-1, 1), past_key_values=caches[0]).logits[:, -1]
                record.note("kv_cache", tensors_of(caches[0]))
                total = (scores.reshape(-1, 1) + logits.log_softmax(-1)).unflatten(0, (4, beams)).flatten(1)
                scores, best = total.topk(beams)
                origin = best // VOCAB + beams * torch.arange(4, device="cuda")[:, None]
                ids = best % VOCAB
                caches[0].reorder_cache(origin.flatten())
                record.take("token", step, (prompt,))
                step += 1
            caches.clear()


# --- a draft ------------------------------------------------------------------------------------------------------------------

@torch.inference_mode()
def speculative_decoding(record):
    """A small model guesses three tokens, a large one checks them at once; what was guessed wrong is cut off again."""
    large, draft = Decoder(d=240, layers=4, kv_heads=3).cuda().eval(), Decoder(d=96, layers=2).cuda().eval()
    record.watch([large, draft])
    kept, drafted = FixedStore(large, rows=4, length=192), GrowingStore()
    record.hold("kv_cache", lambda: [kept.tensors(), drafted.tensors()])
    prompt = torch.randint(VOCAB, (4, 128)).cuda()
    with record.free_choice():
        token = large(prompt, kept)[:, -1:].argmax(-1)
        draft(prompt, drafted)
        record.take("prefill", 0, (prompt,))
        for turn in range(1, 5):
            guesses = [token]
            for _ in range(3):
                guesses.append(draft(guesses[-1], drafted)[:, -1:].argmax(-1))
                record.note("kv_cache", [t for pair in drafted.tensors() for t in pair])
            record.take("drafted", turn, (prompt,))
            checked = large(torch.cat(guesses, 1), kept).argmax(-1)
            accepted = 2
            kept.filled -= len(guesses) - accepted
            drafted.crop(128 + turn * accepted)
            token = checked[:, accepted - 1:accepted]
            record.take("checked", turn, (prompt,))


# --- pages ----------------------------------------------------------------------------------------------------------------------

class PagePool:
    """All layers' keys and values in one tensor of pages; a sequence has the numbers of its pages."""

    def __init__(self, model, pages, page_size=16, dtype=torch.float16):
        first = model.attention[0]
        self.page_size = page_size
        self.pool = torch.empty(2, len(model.attention), pages, page_size, first.kv_heads, first.size, dtype=dtype, device="cuda")
        self.free = list(range(pages))

    def store_for(self, sequence):
        return PagedStore(self, sequence)


@dataclasses.dataclass
class Sequence:
    ids: torch.Tensor
    pages: list = dataclasses.field(default_factory=list)
    length: int = 0


class PagedStore:
    def __init__(self, pool, sequence):
        self.pool, self.sequence = pool, sequence

    def extend(self, layer, k, v):
        pool, s = self.pool, self.sequence
        end = s.length + k.shape[2]
        while len(s.pages) * pool.page_size < end:
            s.pages.append(pool.free.pop())
        places = torch.tensor([s.pages[at // pool.page_size] * pool.page_size + at % pool.page_size for at in range(s.length, end)],
                              device="cuda")
        flat = pool.pool[:, layer].flatten(1, 2)
        flat[0].index_copy_(0, places, k[0].transpose(0, 1))
        flat[1].index_copy_(0, places, v[0].transpose(0, 1))
        pages = torch.tensor(s.pages, device="cuda")
        k, v = (pool.pool[which, layer].index_select(0, pages).flatten(0, 1)[:end].transpose(0, 1)[None] for which in (0, 1))
        if layer == pool.pool.shape[1] - 1:
            s.length = end
        return k, v


@torch.no_grad()
def pages_of_sequences(record):
    """Sequences come and go; their pages go back to the pool."""
    model = Decoder(d=240, kv_heads=2).cuda().half().eval()
    record.watch([model])
    pool = PagePool(model, pages=600)
    record.hold("kv_cache", lambda: [pool.pool])
    running = []
    with record.free_choice():
        for turn in range(5):
            running.append(Sequence(torch.randint(VOCAB, (1, 40 + 24 * turn)).cuda()))
            for sequence in running:
                ids = sequence.ids if sequence.length == 0 else sequence.ids[:, -1:]
                token = model(ids, pool.store_for(sequence))[:, -1:].argmax(-1)
                sequence.ids = torch.cat([sequence.ids, token], 1)
                record.note("input", [sequence.ids])
            if len(running) > 2:
                pool.free.extend(running.pop(0).pages)
            record.take("turn", turn, [s.ids for s in running])


# --- chat -------------------------------------------------------------------------------------------------------------------------

@torch.no_grad()
def chat_sessions(record):
    """Each user's keys and values wait for the next question; the longest unused go when there are more than three."""
    model = Decoder(d=216, layers=3).to("cuda").eval()
    record.watch([model])
    sessions = OrderedDict()
    record.hold("kv_cache", lambda: [store.tensors() for store in sessions.values()])

    def answer(user, question, tokens=3):
        store = sessions.setdefault(user, GrowingStore())
        sessions.move_to_end(user)
        logits = model(question, store)
        for _ in range(tokens):
            record.note("kv_cache", [t for pair in store.tensors() for t in pair])
            logits = model(logits[:, -1:].argmax(-1), store)
        while len(sessions) > 3:
            sessions.popitem(last=False)

    with record.free_choice():
        for turn, user in enumerate(["ada", "bob", "cem", "ada", "dia", "bob"]):
            question = torch.randint(VOCAB, (2, 60 + 30 * (turn % 3))).cuda()
            answer(user, question)
            record.take("answered", turn, (question,))


# --- embeddings ---------------------------------------------------------------------------------------------------------------------

class SentenceEncoder(nn.Module):
    def __init__(self, d=256, documents=3000):
        super().__init__()
        self.tokens = nn.Embedding(4000, d)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 2 * d, batch_first=True, dropout=0.0), 2,
                                             enable_nested_tensor=False)
        self.register_buffer("documents", F.normalize(torch.randn(documents, d), dim=1))

    def forward(self, ids):
        return F.normalize(self.encoder(self.tokens(ids)).mean(1), dim=-1)

    def nearest(self, ids, k=5):
        return (self(ids) @ self.documents.t()).topk(k).indices


class BatchingServer:
    """Callers put requests into a queue; one thread makes batches of what waits."""

    def __init__(self, model, each_batch, largest=8):
        self.model, self.each_batch, self.largest = model, each_batch, largest
        self.waiting = queue.Queue()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def ask(self, ids):
        future = concurrent.futures.Future()
        self.waiting.put((ids, future))
        return future

    def work(self):
        while (first := self.waiting.get()) is not None:
            requests = [first]
            while len(requests) < self.largest:
                requests.append(self.waiting.get())
            ids = torch.stack([ids for ids, _ in requests]).to("cuda")
            with torch.inference_mode():
                found = self.model.nearest(ids)
                self.each_batch(ids)
                found = found.cpu()
            for (_, future), row in zip(requests, found):
                future.set_result(row)


def search_server(record):
    """Sentences of eight callers are encoded together and compared with all documents."""
    model = SentenceEncoder().eval().requires_grad_(False).cuda()
    record.watch([model])
    batches = []

    def each_batch(ids):
        record.take("batch", len(batches), (ids,))
        batches.append(len(ids))

    with record.free_choice():
        server = BatchingServer(model, each_batch)
        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            for length in (32, 64, 48, 96):
                answers = [callers.submit(server.ask, torch.randint(4000, (length,))) for _ in range(8)]
                assert all(len(answer.result().result()) == 5 for answer in answers)
        server.waiting.put(None)
        server.thread.join()
