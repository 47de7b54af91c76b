"""Programs that only run models: caches of keys and values in the forms that people write, servers, and what looks like a cache.

What watch_cache is given is a cache of keys and values (the storages of its tensors); noted after each call of a model.
"""
import asyncio
import concurrent.futures
import dataclasses
import itertools
import math
import os
import queue
import threading
import types

import torch
from torch import nn
from torch.nn import functional

import models
from category_truth import tensors_in
from nets import STEPS, make_batch, small_net
from training import trainers

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")
WIDTH, HEADS, LAYERS, WORDS = 256, 8, 3, 2000
HEAD = WIDTH // HEADS


def watch_cache(record, give):
    """GIVE() gives the cache's tensors from now on."""
    record.held = [held for held in record.held if held[0] != "kv_cache"]
    record.hold("kv_cache", give)


def imported():
    """Before the processes are forked."""
    with trainers.accelerator_known():
        from transformers import BartForConditionalGeneration, LlamaForCausalLM, MistralForCausalLM  # noqa: F401


def prompt(rows=4, tokens=16):
    return models.on_device(torch.zeros(rows, tokens, dtype=torch.long))[0]


def note(record):
    record.note("kv_cache", tensors_in([give() for role, give in record.held if role == "kv_cache"]))


# ---- transformers: its caches, made by generate() or by a loop ----


def tiny(kind, **options):
    import transformers

    config = getattr(transformers, kind + "Config")(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=512, eos_token_id=None, bos_token_id=0, pad_token_id=0, **options)
    return getattr(transformers, kind + "ForCausalLM")(config).cuda().eval()


def layers_of(cache):
    """The tensors in the layers of a transformers' Cache, by its own attributes."""
    for name in ("self_attention_cache", "cross_attention_cache"):
        if hasattr(cache, name):
            yield from layers_of(getattr(cache, name))
    for layer in getattr(cache, "layers", ()):
        for name, value in vars(layer).items():
            if "keys" in name or "values" in name:
                yield from tensors_in(value)


def loop_with(record, model, cache, tokens=24, **first):
    """Greedy decoding by hand."""
    record.watch([model])
    watch_cache(record, lambda: list(layers_of(cache)))
    with torch.no_grad(), record.free_choice():
        ids = prompt()
        for token in range(tokens):
            outputs = model(input_ids=ids, past_key_values=cache, use_cache=True)
            note(record)
            ids = outputs.logits[:, -1:].argmax(-1)
            del outputs
            if token % 8 == 0:
                record.take("token", token)
        del ids
        record.take("end", tokens)


def llama_loop(record):
    from transformers import DynamicCache

    model = tiny("Llama")
    loop_with(record, model, DynamicCache(config=model.config))


def quantized_cache(record):
    """fp8 keys and values with their scales."""
    from transformers import QuantizedCache

    model = tiny("Llama")
    try:
        cache = QuantizedCache("fp8", model.config)
    except Exception:
        from transformers.cache_utils import Cache, Fp8QuantizedLayer

        cache = Cache(layers=[Fp8QuantizedLayer() for _ in range(LAYERS)])
    loop_with(record, model, cache)


def mistral_window(record):
    from transformers import DynamicCache

    model = tiny("Mistral", sliding_window=24)
    loop_with(record, model, DynamicCache(config=model.config), tokens=32)


def end_after(model, tokens):
    """generate() asks the device whether all sequences have ended, which kernels that do nothing cannot answer."""
    asked = itertools.count(1)
    model._has_unfinished_sequences = lambda *_, **__: next(asked) % (tokens + 1) != 0


def generate_with(record, model, inputs, tokens=16, **options):
    """MODEL.generate(), watched from outside by a hook."""
    record.watch([model])
    end_after(model, tokens)
    held = []
    model.register_forward_hook(
        lambda module, arguments, outputs: (held.clear(), held.append(outputs.past_key_values), note(record)) and None)
    watch_cache(record, lambda: [tensor for cache in held for tensor in layers_of(cache)])
    with torch.no_grad(), record.free_choice():
        for request in range(2):
            outputs = model.generate(**inputs, do_sample=False, max_new_tokens=tokens, return_dict_in_generate=True, **options)
            record.take("answer", request, (list(inputs.values()),))
            held.clear()
            del outputs
    record.take("end", 2, (list(inputs.values()),))


def generate_static(record):
    """A static cache: zeros that generate() makes for all tokens at once."""
    model = tiny("Llama")
    generate_with(record, model, {"input_ids": prompt()}, cache_implementation="static", disable_compile=True)


def generate_translation(record):
    """An encoder and a decoder: keys of the source, which stay, and of what is written, which grow."""
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(vocab_size=WORDS, d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=HEADS,
                        decoder_attention_heads=HEADS, encoder_ffn_dim=512, decoder_ffn_dim=512, max_position_embeddings=256,
                        eos_token_id=None, forced_eos_token_id=None, decoder_start_token_id=0, pad_token_id=1)
    model = BartForConditionalGeneration(config).cuda().eval()
    generate_with(record, model, {"input_ids": prompt(8, 48)})


# ---- Own models ----


class Layer(nn.Module):
    """Attention and an MLP; `remember(layer, keys, values)` gives those of all tokens so far."""

    def __init__(self, index):
        super().__init__()
        self.index = index
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, remember):
        rows, count, _ = x.shape
        q, k, v = (part.view(rows, count, HEADS, HEAD).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        k, v = remember(self.index, k, v)
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(HEAD), -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(rows, count, WIDTH))
        return x + self.mlp(x)


class Writer(nn.Module):
    def __init__(self, layer=Layer):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(layer(index) for index in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids, *extra):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, *extra)
        return self.head(x[:, -1:])


def write(record, model, remember, tokens=24, ids=None):
    """One sequence for each row, token after token."""
    ids = prompt() if ids is None else ids
    for token in range(tokens):
        logits = model(ids, remember)
        note(record)
        ids = logits.argmax(-1)
        del logits
        if token % 8 == 0:
            record.take("token", token)
    return ids


def grown_lists(record):
    """past[layer] = (keys, values), each step concatenated."""
    model = Writer().cuda().eval()
    past = [None] * LAYERS
    record.watch([model])
    watch_cache(record, lambda: past)

    def remember(index, k, v):
        if past[index] is not None:
            k, v = torch.cat((past[index][0], k), 2), torch.cat((past[index][1], v), 2)
        past[index] = (k, v)
        return k, v

    with torch.inference_mode(), record.free_choice():
        write(record, model, remember)
        record.take("end", 24)


class Preallocated:
    """Two tensors for all layers, written by position."""

    def __init__(self, rows, length):
        shape = (LAYERS, rows, HEADS, length, HEAD)
        self.k, self.v, self.position = torch.zeros(shape, device="cuda"), torch.zeros(shape, device="cuda"), 0

    def update(self, index, k, v):
        end = self.position + k.shape[2]
        self.k[index, :, :, self.position:end] = k
        self.v[index, :, :, self.position:end] = v
        if index == LAYERS - 1:
            self.position = end
        return self.k[index, :, :, :end], self.v[index, :, :, :end]


def after_warm_up(record):
    """A forward to warm up, then the cache's zeros."""
    model = Writer().cuda().eval()
    record.watch([model])
    with torch.no_grad(), record.free_choice():
        model(prompt(1, 4), lambda index, k, v: (k, v))
        state = Preallocated(4, 64)
        watch_cache(record, lambda: [state.k, state.v])
        for request in range(2):
            state.position = 0
            write(record, model, state.update)


def ring(record):
    """Only the last tokens of each layer, in place of the oldest."""
    model, length = Writer().cuda().eval(), 32
    store = {}
    record.watch([model])
    watch_cache(record, lambda: store)
    count = [0] * LAYERS

    def remember(index, k, v):
        if index not in store:
            store[index] = torch.empty(2, k.shape[0], HEADS, length, HEAD, device=k.device, dtype=k.dtype)
        at = (count[index] + torch.arange(k.shape[2])) % length
        store[index][0][:, :, at.tolist()] = k
        store[index][1][:, :, at.tolist()] = v
        count[index] += k.shape[2]
        filled = min(count[index], length)
        return store[index][0][:, :, :filled], store[index][1][:, :, :filled]

    with torch.no_grad(), record.free_choice():
        write(record, model, remember, tokens=40)
        record.take("end", 40)


class LayerWithBuffers(Layer):
    """As gpt-fast has it: the cache is buffers of a module."""

    def set_up(self, rows, length, kind):
        for name in ("k_cache", "v_cache"):
            self.register_buffer(name, torch.zeros(rows, HEADS, length, HEAD, device="cuda", dtype=kind), persistent=False)

    def forward(self, x, at):
        def remember(_, k, v):
            self.k_cache[:, :, at] = k.to(self.k_cache.dtype)
            self.v_cache[:, :, at] = v.to(self.v_cache.dtype)
            return self.k_cache.to(k.dtype), self.v_cache.to(v.dtype)

        return super().forward(x, remember)


def cache_in_buffers(record):
    model = Writer(LayerWithBuffers).cuda().eval()
    for layer in model.layers:
        layer.set_up(4, 64, torch.bfloat16)
    record.watch([model])
    watch_cache(record, lambda: [tensor for name, tensor in model.named_buffers() if name.endswith("_cache")])
    with torch.no_grad(), record.free_choice():
        for request in range(2):
            ids, position = prompt(), 0
            for token in range(12):
                logits = model(ids, list(range(position, position + ids.shape[1])))
                position += ids.shape[1]
                ids = logits.argmax(-1)
            record.take("answer", request)


class LlamaLayer(Layer):
    """As Meta's code has it: plain attributes, of zeros that the constructor makes."""

    def __init__(self, index):
        super().__init__(index)
        self.cache_k = torch.zeros(8, 64, HEADS, HEAD).cuda()
        self.cache_v = torch.zeros(8, 64, HEADS, HEAD).cuda()

    def forward(self, x, start):
        def remember(_, k, v):
            rows, count = k.shape[0], k.shape[2]
            self.cache_k[:rows, start:start + count] = k.transpose(1, 2)
            self.cache_v[:rows, start:start + count] = v.transpose(1, 2)
            return tuple(part[:rows, :start + count].transpose(1, 2) for part in (self.cache_k, self.cache_v))

        return super().forward(x, remember)


def cache_in_attributes(record):
    model = Writer(LlamaLayer).cuda().eval()
    record.watch([model])
    watch_cache(record, lambda: [part for layer in model.layers for part in (layer.cache_k, layer.cache_v)])
    with torch.inference_mode(), record.free_choice():
        for request in range(3):
            ids, start = prompt(), 0
            for token in range(8):
                logits = model(ids, start)
                start += ids.shape[1]
                ids = logits[:, -1].argmax(-1, keepdim=True)
                del logits
            record.take("answer", request)


class Engine:
    """Blocks of 16 tokens in one tensor for each layer; each sequence has a table of its blocks."""

    def __init__(self, model, blocks):
        self.model, self.tables, self.lengths = model, {}, {}
        self.gpu_blocks = [torch.empty((2, blocks, 16, HEADS, HEAD), dtype=torch.float16, device="cuda") for _ in range(LAYERS)]
        self.free = list(range(blocks))

    def step(self, name, ids):
        length = self.lengths.get(name, 0)
        table = self.tables.setdefault(name, [])
        while len(table) * 16 < length + ids.shape[1]:
            table.append(self.free.pop())

        def remember(index, k, v):
            store = self.gpu_blocks[index]
            for part, new in enumerate((k, v)):
                for token in range(new.shape[2]):
                    block, place = table[(length + token) // 16], (length + token) % 16
                    store[part, block, place] = new[0, :, token].half()
            return tuple(store[part, table].reshape(1, -1, HEADS, HEAD)[:, :length + ids.shape[1]].transpose(1, 2).float()
                         for part in (0, 1))

        logits = self.model(ids, remember)
        self.lengths[name] = length + ids.shape[1]
        return logits.argmax(-1)

    def finish(self, name):
        self.free += self.tables.pop(name)
        del self.lengths[name]


def paged_blocks(record):
    """A profile run tells how much memory is left; the rest becomes blocks. Sequences come and go."""
    model = Writer().cuda().eval()
    record.watch([model])
    with torch.inference_mode(), record.free_choice():
        model(prompt(8, 32), lambda index, k, v: (k, v))
        engine = Engine(model, 48)
        watch_cache(record, lambda: engine.gpu_blocks)
        running = {}
        for step in range(20):
            if step % 5 == 0:
                running[f"request-{step}"] = prompt(1, 20)
            for name in list(running):
                running[name] = engine.step(name, running[name])
                if engine.lengths[name] > 28:
                    engine.finish(name)
                    del running[name]
            if step % 6 == 3:
                record.take("step", step)
        running.clear()
        record.take("end", 20)


# ---- Servers ----


class Session:
    """What a server keeps of one conversation."""

    def __init__(self):
        self.past = {}

    def attend(self, index, k, v):
        old = self.past.get(index)
        if old is not None:
            k, v = torch.cat([old["k"], k], dim=2), torch.cat([old["v"], v], dim=2)
        self.past[index] = {"k": k, "v": v}
        return k, v


def pool_of_threads(record):
    """Handlers on a thread pool, a cache for each conversation."""
    model, sessions, lock = Writer().cuda().eval(), {}, threading.Lock()
    record.watch([model])
    watch_cache(record, lambda: [session.past for session in sessions.values()])

    def handle(name, count):
        with torch.inference_mode():
            ids = prompt(2, 24)
            for _ in range(count):
                with lock:
                    ids = model(ids, sessions[name].attend).argmax(-1)
                    note(record)

    with record.free_choice(), concurrent.futures.ThreadPoolExecutor(3) as pool:
        for turn in range(3):
            names = [f"user-{turn}-{number}" for number in range(3)]
            sessions.update((name, Session()) for name in names)
            list(pool.map(handle, names, [6, 8, 10]))
            record.take("turn", turn)
            for name in names[:2]:
                del sessions[name]
        record.take("end", 3)


def asked_by_tasks(record):
    """asyncio: conversations share a batch of slots."""
    model = Writer().cuda().eval()
    record.watch([model])
    slots, length = 4, 48
    keys = [torch.zeros(slots, HEADS, length, HEAD, device="cuda") for _ in range(LAYERS)]
    values = [torch.zeros_like(part) for part in keys]
    watch_cache(record, lambda: keys + values)
    free = list(range(slots))

    async def converse(name):
        while not free:
            await asyncio.sleep(0)
        slot = free.pop()
        ids, at = prompt(1, 12), 0
        for _ in range(10):
            def remember(index, k, v, at=at):
                keys[index][slot, :, at:at + k.shape[2]] = k[0]
                values[index][slot, :, at:at + k.shape[2]] = v[0]
                return keys[index][slot:slot + 1, :, :at + k.shape[2]], values[index][slot:slot + 1, :, :at + k.shape[2]]

            logits = model(ids, remember)
            at += ids.shape[1]
            ids = logits.argmax(-1)
            await asyncio.sleep(0)
        free.append(slot)

    async def serve():
        for wave in range(2):
            await asyncio.gather(*(converse(f"{wave}-{number}") for number in range(6)))
            record.take("wave", wave)

    with torch.no_grad(), record.free_choice():
        asyncio.run(serve())


def batching_dispatcher(record):
    """Handlers put requests into a queue; one thread makes batches of them. Layers keep the last tokens of a batch only."""
    model, window, inbox = Writer().cuda().eval(), 20, queue.Queue()
    record.watch([model])
    state = {}
    watch_cache(record, lambda: state)

    def attend(index, k, v):
        if index in state:
            k, v = (torch.cat((old, new), 2) for old, new in zip(state[index], (k, v)))
        state[index] = k[:, :, -window:].contiguous(), v[:, :, -window:].contiguous()
        return k, v

    @torch.inference_mode()
    def answer(batch):
        ids = torch.tensor([text for text, _ in batch], device="cuda")
        record.note("input", [ids])
        for token in range(12):
            logits = model(ids, attend)
            note(record)
            ids = logits.argmax(-1)
            del logits
        state.clear()
        return ids.flatten().tolist()

    def dispatch():
        served = 0
        while (first := inbox.get()) is not None:
            batch = [first]
            while len(batch) < 4:
                batch.append(inbox.get())
            for word, (_, future) in zip(answer(batch), batch):
                future.set_result(word)
            record.take("served", served)
            served += 1

    thread = threading.Thread(target=dispatch)
    with record.free_choice():
        thread.start()
        with concurrent.futures.ThreadPoolExecutor(4) as handlers:
            def handle(number):
                future = concurrent.futures.Future()
                inbox.put(([number % WORDS] * 24, future))
                return future.result()

            list(handlers.map(handle, range(16)))
        inbox.put(None)
        thread.join()


# ---- Models without modules ----


@dataclasses.dataclass
class Block:
    """The weights of a layer."""

    norm: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor


def gpt_of_functions(record):
    """As in picoGPT: functions of weights, and a list of (keys, values)."""
    def made(*shape):
        return torch.randn(*shape, device="cuda") * 0.02

    words = made(WORDS, WIDTH)
    blocks = [Block(torch.ones(WIDTH, device="cuda"), made(WIDTH, 3 * WIDTH), made(WIDTH, WIDTH), made(WIDTH, 2 * WIDTH),
                    made(2 * WIDTH, WIDTH)) for _ in range(LAYERS)]
    record.watch([types.SimpleNamespace(parameters=lambda: [words, *(part for block in blocks for part in vars(block).values())],
                                        buffers=list)])
    held = []
    watch_cache(record, lambda: held)

    def attention(x, block, past):
        q, k, v = (part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in (x @ block.qkv).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        weights = torch.softmax(q @ k.transpose(2, 3) / HEAD ** 0.5, -1)
        return (weights @ v).transpose(1, 2).flatten(2) @ block.out, (k, v)

    def gpt(ids, past):
        x, present = words[ids], []
        for block, its_past in zip(blocks, past):
            attended, kept = attention(functional.layer_norm(x, (WIDTH,), block.norm), block, its_past)
            present.append(kept)
            x = x + attended
            x = x + functional.gelu(x @ block.up) @ block.down
        return x[:, -1:] @ words.T, present

    with torch.no_grad(), record.free_choice():
        for request in range(2):
            ids, past = prompt(4, 20), [None] * LAYERS
            for _ in range(10):
                logits, past = gpt(ids, past)
                held[:] = past
                note(record)
                ids = logits.argmax(-1)
                del logits
            record.take("answer", request)
            held.clear()


# ---- What is no cache of keys and values ----


def collected_features(record):
    """Features of a whole data set: rows of zeros that are filled, and a tensor that grows."""
    net = small_net().cuda().eval()
    record.watch([net])
    with torch.no_grad(), record.free_choice():
        found, grown = torch.zeros(4096, 512, device="cuda"), None
        for step in range(8):
            (images,) = models.on_device(torch.zeros(64, 256))
            features = net[0](images)
            found[step * 64:step * 64 + 64, :features.shape[1]] = features[:, :512]
            grown = features if grown is None else torch.cat([grown, features])
            del features
            record.take("batch", step, (images,))
            del images
        record.take("end", 8)


class Pyramid(nn.Module):
    """Concatenates within its forward, as DenseNet does, and gives back what each layer made."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128 * (index + 1), 128) for index in range(4))

    def forward(self, x):
        made = []
        for layer in self.layers:
            new = functional.relu(layer(x))
            made.append(new)
            x = torch.cat([x, new], 1)
        return x, made


def dense_features(record):
    model = Pyramid().cuda().eval()
    record.watch([model])
    kept = []
    with torch.no_grad(), record.free_choice():
        for step in range(6):
            (rows,) = models.on_device(torch.zeros(256, 128))
            out, made = model(rows)
            kept.append(made[-1])
            record.take("out", step, (rows,))
            del out, made, rows
        record.take("end", 6)


def writes_while_training(record):
    """Training, with samples written by generate() from time to time."""
    model = tiny("Llama")
    optimizer = torch.optim.AdamW(model.parameters())
    record.watch([model], [optimizer])
    held = []
    watch_cache(record, lambda: [tensor for cache in held for tensor in layers_of(cache)])
    for step in range(4):
        ids = prompt(2, 32)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        record.take("fwd", step, (ids,))
        loss.backward()
        record.take("bwd", step, (ids,))
        optimizer.step()
        optimizer.zero_grad()
        del loss
        with torch.no_grad(), record.free_choice():
            hook = model.register_forward_hook(
                lambda module, arguments, outputs: (held.clear(), held.append(outputs.past_key_values), note(record)) and None)
            model.eval()
            end_after(model, 8)
            outputs = model.generate(input_ids=ids, do_sample=False, max_new_tokens=8, return_dict_in_generate=True)
            record.take("sample", step, (ids,))
            held.clear()
            hook.remove()
            model.train()
            del outputs, ids


# ---- Nothing is kept ----


def inference(record):
    """No gradients and no optimizer at all."""
    model = small_net().cuda().eval()
    record.watch([model])
    with torch.no_grad(), record.free_choice():
        for step in range(STEPS):
            inputs, targets = make_batch()
            outputs = model(inputs)
            record.take("out", step, (inputs, targets))
            del outputs


def generate(record):
    """Token after token, each input made from the last output."""
    model = models.Gpt().cuda().eval()
    record.watch([model])
    with torch.no_grad(), record.free_choice():
        (tokens,) = models.on_device(torch.zeros(1, 4, dtype=torch.long))
        for _ in range(12):
            outputs = model(tokens)
            tokens = torch.cat([tokens, outputs[:, -1:].argmax(-1)], 1)
    record.take("end", 0)
