"""Without gradients: generation with caches of several kinds, a server with a pool of threads, features of a data set."""
import concurrent.futures
import threading

import torch
from torch import nn
from torch.nn import functional as F


# --- generation by transformers ----------------------------------------------------------------------------------------------

def cached(cache):
    """The keys and values of a transformers cache."""
    return [tensor for layer in getattr(cache, "layers", ()) for tensor in (getattr(layer, "keys", None), getattr(layer, "values", None))]


def greedy_then_beams(record):
    """generate() with its own cache: a batch of prompts greedily, then one prompt with four beams."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=3000, hidden_size=256, num_hidden_layers=4, num_attention_heads=8,
                                             intermediate_size=1024, max_position_embeddings=256, use_cache=True))
    model = model.eval().to("cuda", dtype=torch.float16)
    model.generation_config.eos_token_id = model.generation_config.bos_token_id = None
    model.generation_config.pad_token_id = 0
    model._has_unfinished_sequences = lambda *arguments, **options: now["forwards"] < 14  # what lies on the device may be anything
    record.watch([model])
    now = {"cache": None, "forwards": 0, "request": 0, "inputs": ()}
    record.hold("kv_cache", lambda: cached(now["cache"]))

    def before(module, arguments, options):
        now["cache"] = options.get("past_key_values")
        record.note("kv_cache", cached(now["cache"]))

    def after(module, arguments, options, output):
        now["cache"] = output.past_key_values
        record.note("kv_cache", cached(now["cache"]))
        now["forwards"] += 1
        if now["forwards"] in (1, 6, 12):
            record.take("token", 100 * now["request"] + now["forwards"], now["inputs"])

    model.register_forward_pre_hook(before, with_kwargs=True)
    model.register_forward_hook(after, with_kwargs=True)
    for request, options in enumerate((dict(do_sample=False), dict(num_beams=4, early_stopping=False))):
        prompt = torch.randint(1, 3000, (1 if options.get("num_beams") else 4, 48)).cuda()
        mask = torch.ones_like(prompt)
        now.update(forwards=0, request=request, inputs=(prompt, mask))
        with record.free_choice():
            tokens = model.generate(prompt, attention_mask=mask, max_new_tokens=14, min_new_tokens=14, **options)
        now["cache"] = None
        record.take("answered", 100 * request + 90, (prompt, mask))
        tokens.tolist()
        del tokens


@torch.no_grad()
def static_cache_by_hand(record):
    """A prompt in one pass, then token by token, with a StaticCache that is made once and reset for each prompt."""
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    config = LlamaConfig(vocab_size=3000, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8,
                         num_key_value_heads=4, max_position_embeddings=512, attn_implementation="sdpa")
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
    cache = StaticCache(config=config, max_cache_len=256)
    record.watch([model])
    record.hold("kv_cache", lambda: cached(cache))

    def decode_one(token, position):
        logits = model(token, position_ids=position.unsqueeze(0), cache_position=position, past_key_values=cache,
                       use_cache=True).logits
        return logits[:, -1].argmax(-1, keepdim=True).clamp(0, 2999)

    for request in range(3):
        prompt = torch.randint(0, 3000, (2, 40 + 20 * request)).cuda()
        with record.free_choice():
            position = torch.arange(prompt.shape[1], device="cuda")
            token = decode_one(prompt, position)
        record.take("prefill", 10 * request, (prompt, position, token))
        answer = [token]
        for i in range(10):
            with record.free_choice():
                position = position[-1:] + 1
                token = decode_one(token, position)
            answer.append(token)
            if i in (4, 9):
                record.take("decode", 10 * request + 1 + i, (prompt, position, answer))
        torch.cat(answer, 1).tolist()
        cache.reset()


# --- generation by hand ---------------------------------------------------------------------------------------------------------

class KVCache:
    """Of one layer of one conversation; grows by a chunk when it is full."""

    CHUNK = 32

    def __init__(self):
        self.k = self.v = None
        self.length = 0

    def append(self, k, v):
        needed = self.length + k.shape[2]
        if self.k is None or needed > self.k.shape[2]:
            self.grow(k, needed)
        self.k[:, :, self.length:needed] = k
        self.v[:, :, self.length:needed] = v
        self.length = needed
        return self.k[:, :, :needed], self.v[:, :, :needed]

    def grow(self, like, needed):
        room = (needed + self.CHUNK - 1) // self.CHUNK * self.CHUNK
        b, heads, _, d = like.shape
        old = self.k, self.v
        self.k, self.v = (torch.empty(b, heads, room, d, dtype=like.dtype, device=like.device) for _ in range(2))
        if old[0] is not None:
            self.k[:, :, :self.length], self.v[:, :, :self.length] = old[0][:, :, :self.length], old[1][:, :, :self.length]


class DecoderBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.ln1, self.ln2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, -1))
        k, v = cache.append(k, v)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.ln2(x))


class ChatModel(nn.Module):
    def __init__(self, words=4000, d=256, layers=4, heads=8):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, d), nn.Embedding(512, d)
        self.h = nn.ModuleList(DecoderBlock(d, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)

    def forward(self, tokens, caches):
        start = caches[0].length
        x = self.wte(tokens) + self.wpe(torch.arange(start, start + tokens.shape[1], device=tokens.device))
        for block, cache in zip(self.h, caches):
            x = block(x, cache)
        return self.ln_f(x[:, -1]) @ self.wte.weight.t()


class Conversation:
    def __init__(self, model, prompt):
        self.caches = [KVCache() for _ in model.h]
        self.pending, self.answer = prompt, []


def conversations_in_turn(record):
    """A scheduler gives each open conversation one token in turn; conversations come and go; caches grow by chunks."""
    model = ChatModel().cuda().eval().requires_grad_(False)
    record.watch([model])
    active = []
    record.hold("kv_cache", lambda: [(cache.k, cache.v) for conversation in active for cache in conversation.caches])
    record.hold("input", lambda: [conversation.pending for conversation in active])
    for turn in range(36):
        if turn % 6 == 0:
            active.append(Conversation(model, torch.randint(0, 4000, (1, 60 + 2 * turn)).to("cuda")))
        for conversation in active:
            with record.free_choice():
                probabilities = torch.softmax(model(conversation.pending, conversation.caches) / 0.8, -1)
                token = torch.multinomial(probabilities, 1).clamp(0, 3999)
            record.note("kv_cache", [tensor for cache in conversation.caches for tensor in (cache.k, cache.v)])
            record.note("input", [token])
            conversation.answer.append(int(token))
            conversation.pending = token
        if turn % 5 == 4:
            record.take("turn", turn)
        if len(active) > 3:
            active.pop(0)
    active.clear()
    del conversation, probabilities, token
    record.take("closed", 40)


# --- a server ----------------------------------------------------------------------------------------------------------------------

class Classifier:
    def __init__(self, model):
        self.model, self.lock, self.served = model, threading.Lock(), 0

    def __call__(self, record, texts):
        length = max(map(len, texts))
        ids = torch.tensor([text + [0] * (length - len(text)) for text in texts])
        ids, mask = ids.to("cuda"), (ids != 0).long().to("cuda")
        record.note("input", [ids, mask])
        with torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=mask).logits
            scores = logits.softmax(-1).cpu()
        with self.lock:
            self.served += len(texts)
        return scores.tolist()


def classification_in_threads(record):
    """Four threads answer requests of different lengths; a batch of requests at a time is waited for."""
    from transformers import ElectraConfig, ElectraForSequenceClassification

    model = ElectraForSequenceClassification(ElectraConfig(
        vocab_size=4000, embedding_size=128, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
        intermediate_size=1024, num_labels=4, max_position_embeddings=160)).half().cuda().eval()
    classify = Classifier(model)
    record.watch([model])
    with torch.inference_mode(), record.free_choice():
        ids = torch.full((16, 128), 7).cuda()
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        record.take("warm", 100, (ids,))
        del ids, logits
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        for wave in range(5):
            requests = [[[7] * int(length) for length in torch.randint(16, 128, (4,))] for _ in range(8)]
            with record.free_choice():
                futures = [pool.submit(classify, record, texts) for texts in requests]
                for future in concurrent.futures.as_completed(futures):
                    assert len(future.result()) == 4
            record.take("wave", wave)


# --- features ------------------------------------------------------------------------------------------------------------------------

def mean_pooling(hidden, mask):
    mask = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)


def embeddings_to_host(record):
    """Sentences sorted by length; of each batch the pooled, normalized vectors go to the host."""
    from transformers import MPNetConfig, MPNetModel

    model = MPNetModel(MPNetConfig(vocab_size=4000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                   intermediate_size=1024, max_position_embeddings=160)).to("cuda")
    model.eval()
    record.watch([model])
    all_embeddings = []
    lengths = sorted(torch.randint(8, 128, (48,)).tolist(), reverse=True)
    for step, start in enumerate(range(0, 48, 8)):
        length = lengths[start]
        features = {"input_ids": torch.randint(5, 4000, (8, length)), "attention_mask": torch.ones(8, length, dtype=torch.long)}
        features = {key: value.to("cuda") for key, value in features.items()}
        with torch.no_grad(), record.free_choice():
            out = model(**features)
            embeddings = F.normalize(mean_pooling(out.last_hidden_state, features["attention_mask"]), p=2, dim=1)
        record.take("batch", step, features)
        all_embeddings.extend(embeddings.cpu())
    del out, embeddings
    assert torch.stack(all_embeddings).shape == (48, 256)
    record.take("end", 10, features)
