"""Answers: tokens from caches of several kinds, beams, a small model that guesses for a large one, features, drawn pictures."""
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from training.diffusion import AutoencoderKL, DiT

device = torch.device("cuda")


# --- a cache as long as it will be --------------------------------------------------------------------------------------------

class Attention(nn.Module):
    def __init__(self, d, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, d // heads
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, kv_heads * self.size, bias=False) for _ in range(2))

    def forward(self, x, keys, values, start):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        keys[:b, :, start:start + t] = self.k(x).view(b, t, self.kv_heads, self.size).transpose(1, 2)
        values[:b, :, start:start + t] = self.v(x).view(b, t, self.kv_heads, self.size).transpose(1, 2)
        k, v = keys[:b, :, :start + t], values[:b, :, :start + t]
        out = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1, enable_gqa=True)
        return self.o(out.transpose(1, 2).reshape(b, t, -1))


class ServedModel(nn.Module):
    def __init__(self, vocab=6000, d=320, layers=4, heads=8, kv_heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.attention = nn.ModuleList(Attention(d, heads, kv_heads) for _ in range(layers))
        self.gate, self.up = (nn.ModuleList(nn.Linear(d, 3 * d, bias=False) for _ in range(layers)) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(3 * d, d, bias=False) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(d) for _ in range(2 * layers + 1))

    def forward(self, ids, cache, start):
        x = self.embed(ids)
        for i, attention in enumerate(self.attention):
            x = x + attention(self.norms[2 * i](x), *cache[i], start)
            h = self.norms[2 * i + 1](x)
            x = x + self.down[i](F.silu(self.gate[i](h)) * self.up[i](h))
        return F.linear(self.norms[-1](x[:, -1:]), self.embed.weight)


class Engine:
    """Reserves the keys and values of all rows at once, as its first act."""

    def __init__(self, model, rows=8, length=256):
        self.model = model
        shape = rows, 4, length, 40
        self.cache = [tuple(torch.zeros(shape, dtype=torch.bfloat16, device=device) for _ in range(2)) for _ in model.attention]

    @torch.inference_mode()
    def generate(self, prompts, count, each_token, top_k=50):
        token, start, out = prompts, 0, [prompts]
        for i in range(count):
            logits = self.model(token, self.cache, start)[:, -1].float()
            best, which = logits.topk(top_k)
            token = which.gather(1, torch.multinomial(best.softmax(-1), 1).clamp(0, top_k - 1)).clamp(0, 5999)
            start += out[-1].shape[1]
            out.append(token)
            each_token(i, out)
        return torch.cat(out, 1)


def reserved_cache_engine(record):
    """bfloat16; batches of prompts of different counts and lengths are answered by sampling of the best fifty."""
    model = ServedModel().to(device, torch.bfloat16).eval()
    engine = Engine(model)
    record.watch([model])
    record.hold("kv_cache", lambda: engine.cache)
    for request, (rows, length) in enumerate(((8, 120), (3, 60), (6, 180), (8, 40))):
        prompts = torch.randint(6000, (rows, length)).to(device)

        def each_token(i, out):
            record.note("input", out)
            if i in (0, 3, 7):
                record.take("token", 10 * request + i, out)

        with record.free_choice():
            answer = engine.generate(prompts, 8, each_token)
        answer.cpu()


# --- generate() of transformers -----------------------------------------------------------------------------------------------

def sampled_by_generate(record):
    """generate() with sampling for prompts of different lengths, padded on the left; its own dynamic cache."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(vocab_size=4000, hidden_size=256, intermediate_size=768, num_hidden_layers=4, num_attention_heads=8,
                         num_key_value_heads=4, max_position_embeddings=512)
    model = Qwen2ForCausalLM(config).to(device, torch.bfloat16).eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    record.watch([model])
    now = {"request": 0, "count": 0, "cache": None, "inputs": ()}
    cached = lambda: [(layer.keys, layer.values) for layer in getattr(now["cache"], "layers", ()) if layer.is_initialized]
    record.hold("kv_cache", cached)

    def after(module, arguments, options, output):
        now["cache"] = output.past_key_values
        record.note("kv_cache", [t for pair in cached() for t in pair])
        now["count"] += 1
        if now["count"] in (1, 6, 11):
            record.take("token", 100 * now["request"] + now["count"], now["inputs"])

    model.register_forward_hook(after, with_kwargs=True)
    for request, longest in enumerate((90, 140, 64)):
        ids, mask = torch.randint(1, 4000, (6, longest)), torch.ones(6, longest, dtype=torch.long)
        for row in range(6):
            mask[row, :row * 7] = 0
        ids, mask = (ids * mask).to(device), mask.to(device)
        now.update(request=request, count=0, inputs=(ids, mask))
        with record.free_choice(), torch.no_grad():
            out = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=12, min_new_tokens=12, do_sample=True, temperature=0.7,
                                 remove_invalid_values=True)
        now["cache"] = None
        record.take("answered", 100 * request + 50, (ids, mask))
        out.tolist()


# --- beams --------------------------------------------------------------------------------------------------------------------

class Translator(nn.Module):
    def __init__(self, vocab=5000, d=256, layers=3):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab, d), nn.Embedding(256, d)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 8, 4 * d, batch_first=True), layers, enable_nested_tensor=False)
        projections = lambda: nn.ModuleList(nn.ModuleDict({n: nn.Linear(d, d) for n in "qkvo"}) for _ in range(layers))
        self.selfs, self.crosses = projections(), projections()
        mlp = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        self.mlps = nn.ModuleList(mlp() for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, vocab)

    def encode(self, source):
        memory = self.encoder(self.embed(source) + self.pos.weight[:source.shape[1]])
        heads = lambda t: t.unflatten(-1, (8, -1)).transpose(1, 2).contiguous()
        return [(heads(c["k"](memory)), heads(c["v"](memory))) for c in self.crosses]

    def decode_one(self, token, position, past, crossed):
        x, heads, present = self.embed(token) + self.pos.weight[position], lambda t: t.unflatten(-1, (8, -1)).transpose(1, 2), []
        for i, (own, cross, mlp) in enumerate(zip(self.selfs, self.crosses, self.mlps)):
            k, v = heads(own["k"](x)), heads(own["v"](x))
            if past:
                k, v = torch.cat([past[i][0], k], 2), torch.cat([past[i][1], v], 2)
            present.append((k, v))
            x = x + own["o"](F.scaled_dot_product_attention(heads(own["q"](x)), k, v).transpose(1, 2).flatten(2))
            x = x + cross["o"](F.scaled_dot_product_attention(heads(cross["q"](x)), *crossed[i]).transpose(1, 2).flatten(2))
            x = x + mlp(x)
        return self.out(self.norm(x))[:, -1].log_softmax(-1), present


@torch.no_grad()
def translation_by_beams(record):
    """Five beams for each sentence; the keys and values of beams are put in their new order at each token."""
    model, beams, vocab = Translator().to(device).eval(), 5, 5000
    record.watch([model])
    past, crossed = [], []
    record.hold("kv_cache", lambda: [past, crossed])
    for request in range(3):
        source = torch.randint(vocab, (8, 70 + 30 * request)).to(device)
        with record.free_choice():
            crossed = model.encode(source)
            record.note("kv_cache", [t for pair in crossed for t in pair])
            crossed = [tuple(t.repeat_interleave(beams, 0) for t in pair) for pair in crossed]
            tokens = torch.ones(8 * beams, 1, dtype=torch.long).to(device)
            scores = torch.zeros(8, beams, device=device)
            past = []
            for position in range(12):
                log_probs, past = model.decode_one(tokens[:, -1:], position, past, crossed)
                record.note("kv_cache", [t for pair in past for t in pair])
                total = (scores.view(-1, 1) + log_probs).view(8, beams * vocab)
                scores, chosen = total.topk(beams, 1)
                chosen = chosen.clamp(0, beams * vocab - 1)
                rows = (chosen // vocab + torch.arange(8, device=device)[:, None] * beams).flatten()
                tokens = torch.cat([tokens[rows], (chosen % vocab).view(-1, 1)], 1)
                record.note("input", [tokens])
                past = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in past]
                if position in (2, 11):
                    record.take("token", 20 * request + position, (source, tokens))
            tokens.view(8, beams, -1)[:, 0].tolist()


# --- a small model guesses ----------------------------------------------------------------------------------------------------

@torch.no_grad()
def guessed_by_draft(record):
    """Two GPT-2 of transformers: the small one guesses four tokens, the large one checks them; both caches are cropped."""
    from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

    make = lambda d, layers: GPT2LMHeadModel(GPT2Config(vocab_size=4000, n_embd=d, n_layer=layers, n_head=d // 32, n_positions=512))
    target, draft = make(384, 5).half().to(device).eval(), make(128, 2).half().to(device).eval()
    record.watch([target, draft])
    caches = {}
    cached = lambda: [(layer.keys, layer.values) for cache in caches.values() for layer in cache.layers if layer.is_initialized]
    record.hold("kv_cache", cached)

    def run(name, model, ids):
        logits = model(input_ids=ids, past_key_values=caches[name], use_cache=True).logits
        record.note("kv_cache", [t for pair in cached() for t in pair])
        return logits

    for request in range(2):
        caches.update(target=DynamicCache(), draft=DynamicCache())
        ids = torch.randint(4000, (4, 150 + 50 * request)).to(device)
        with record.free_choice():
            token = run("target", target, ids)[:, -1:].argmax(-1).clamp(0, 3999)
            run("draft", draft, ids)
            record.take("prompt", 10 * request, (ids, token))
            for turn in range(4):
                guesses = [token]
                for _ in range(4):
                    guesses.append(run("draft", draft, guesses[-1])[:, -1:].argmax(-1).clamp(0, 3999))
                guessed = torch.cat(guesses, 1)
                checked = run("target", target, guessed).argmax(-1).clamp(0, 3999)
                accepted = int((guessed[:, 1:] == checked[:, :-1]).all(0).cumprod(0).sum().clamp(0, 3))
                length = caches["target"].get_seq_length() - (4 - accepted)
                for cache in caches.values():
                    if cache.get_seq_length() > length:
                        cache.crop(length - cache.get_seq_length())
                token = checked[:, accepted:accepted + 1].contiguous()
                record.take("turn", 10 * request + 1 + turn, (ids, token, guesses, guessed, checked))


# --- classes and features -----------------------------------------------------------------------------------------------------

@torch.inference_mode()
def classified_and_kept(record):
    """A RegNet classifies batches; pooled features of all pictures stay in a list and are searched at the end."""
    from torchvision.models.feature_extraction import create_feature_extractor

    net = torchvision.models.regnet_x_400mf(num_classes=1000).eval()
    extractor = create_feature_extractor(net, {"trunk_output": "maps", "fc": "logits"}).half().to(device)
    record.watch([extractor])
    kept, classes = [], []
    for step in range(8):
        images = torch.rand(24, 3, 112, 112).to(device, torch.float16)
        with record.free_choice():
            out = extractor(images)
            grid = F.adaptive_avg_pool2d(out["maps"].float(), 4).flatten(1)
            kept.append(F.normalize(grid, dim=1))
            classes += out["logits"].float().softmax(1).topk(5).indices.tolist()
        record.take("batch", step, (images,))
    del out, grid
    with record.free_choice():
        gallery = torch.cat(kept)
        nearest = (gallery @ gallery.t()).topk(6).indices
    record.take("search", 8)
    nearest.tolist()


# --- drawn pictures -----------------------------------------------------------------------------------------------------------

@torch.no_grad()
def guided_sampling(record):
    """Latents are drawn in half precision with guidance, in Heun's steps, and decoded; one request follows the other."""
    dit, vae = DiT(d=288, depth=5, side=32).to(device).half().eval(), AutoencoderKL().to(device).half().eval()
    record.watch([dit, vae])
    nothing = torch.zeros(1, 24, 128).to(device, torch.float16)
    record.hold("input", lambda: [nothing])

    def flow(z, t, text):
        both = dit(torch.cat([z, z]), t.expand(2 * len(z)), text)
        with_text, without = both.chunk(2)
        return without + 5.0 * (with_text - without)

    for request in range(3):
        texts = torch.randn(4 + 2 * request, 24, 128).to(device, torch.float16)
        with record.free_choice():
            text = torch.cat([texts, nothing.expand(len(texts), -1, -1)])
            z = torch.randn(len(texts), 4, 32, 32, device=device, dtype=torch.float16)
            times = torch.linspace(0, 1, 6).to(device, torch.float16)
            for i in range(5):
                dt = times[i + 1] - times[i]
                v = flow(z, times[i:i + 1], text)
                guess = z + dt * v
                z = z + dt * 0.5 * (v + flow(guess, times[i + 1:i + 2], text))
                if i in (1, 4):
                    record.take("drawn", 10 * request + i, (texts, text, times))
            images = vae.decoder(z / 0.18).float().clamp(-1, 1)
        record.take("decoded", 10 * request + 8, (texts, text, times))
        images.cpu()
