"""Programs that count their own requests, forward passes and steps.

Each function gets a Count and drives it. A forward pass is an outermost call of a model. A request is one call of a function that
answers with several passes, or one call of a server. `requests` stays None where nothing in the program is one: evaluation, loops.
"""
import http.server
import queue
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.nn import functional as F


class Count:
    def __init__(self):
        self.requests, self.passes, self.lock = None, 0, threading.Lock()
        self.calls = {}  # by thread, since its last request: when each pass began and ended
        self.spans = []  # of requests: these times of the first pass and of the last, and the thread

    def call(self, model, *arguments):
        with self.lock:
            self.passes += 1
        began = time.monotonic_ns()
        result = model(*arguments)
        self.calls.setdefault(threading.get_ident(), []).append([began, time.monotonic_ns()])
        return result

    def request(self, requests=1):
        with self.lock:
            self.requests = (self.requests or 0) + requests
            thread = threading.get_ident()
            calls = self.calls.pop(thread, ())
            if calls and requests == 1:
                self.spans.append([*calls[0], *calls[-1], thread])


def mlp(width=256, out=None):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, out or width)).cuda().eval()


class Decoder(nn.Module):
    """One layer with a cache that grows, or none where `past` is False."""

    def __init__(self, words=500, width=128):
        super().__init__()
        self.embed, self.q, self.kv = nn.Embedding(words, width), nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.mlp, self.head = nn.Linear(width, width), nn.Linear(width, words)

    def forward(self, ids, past=None):
        x = self.embed(ids)
        k, v = self.kv(x).chunk(2, -1)
        if past is not None:
            k, v = torch.cat((past[0], k), 1), torch.cat((past[1], v), 1)
        x = x + F.scaled_dot_product_attention(self.q(x), k, v)
        return self.head(x + self.mlp(x))[:, -1:], (k.contiguous(), v.contiguous())


# --- requests ------------------------------------------------------------------------------------------------------------------

LENGTHS = (5, 9, 3, 12, 7, 4, 10, 6, 8, 11, 2, 5)


def answered_by_hand(count):
    """A function of the script's decodes token after token; the prompt is made by its caller."""
    model = Decoder().cuda().eval()

    @torch.no_grad()
    def answer(ids, tokens):
        past = None
        for _ in range(tokens):
            logits, past = count.call(model, ids, past)
            ids = logits.argmax(-1)
        return ids

    for tokens in LENGTHS:
        answer(torch.zeros(2, 16, dtype=torch.long).cuda(), tokens).tolist()
        count.request()


def generate_in_one_line(count):
    """generate() makes its input itself: between two calls of it nothing is allocated."""
    model = Decoder().cuda().eval()

    @torch.no_grad()
    def generate(prompt, tokens):
        ids, past, out = torch.tensor([prompt]).cuda(), None, []
        for _ in range(tokens):
            logits, past = count.call(model, ids, past)
            ids = logits.argmax(-1)
            out.append(ids)
        return torch.cat(out, 1).tolist()

    for tokens in LENGTHS:
        generate([1] * (tokens + 3), tokens)
        count.request()


def generate_streams(count):
    """generate() is a generator: its frame leaves the stack at each token."""
    model = Decoder().cuda().eval()

    def generate(prompt, tokens):
        ids, past = torch.tensor([prompt]).cuda(), None
        for _ in range(tokens):
            with torch.no_grad():
                logits, past = count.call(model, ids, past)
            ids = logits.argmax(-1)
            yield ids

    for tokens in LENGTHS:
        shown = torch.zeros(1).cuda()
        for token in generate([1] * (tokens + 3), tokens):
            shown = shown + token.float().mean()
        count.request()


def generate_once(count):
    """A single call of generate()."""
    model = Decoder().cuda().eval()

    @torch.no_grad()
    def generate(ids, tokens):
        past = None
        for _ in range(tokens):
            logits, past = count.call(model, ids, past)
            ids = logits.argmax(-1)

    generate(torch.zeros(1, 8, dtype=torch.long).cuda(), 30)
    count.request()


def transformers_generate(count):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=256)
    model = LlamaForCausalLM(config).cuda().eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    model._has_unfinished_sequences = lambda *arguments, **options: count.passes < until  # what lies on the device may be anything

    def counted(module, arguments, output):
        count.passes += 1

    model.register_forward_hook(counted)
    for tokens in LENGTHS:
        ids, until = torch.randint(1, 1000, (2, 10 + tokens)).cuda(), count.passes + tokens
        with torch.no_grad():
            model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        count.request()


def translated(count):
    """An encoder once, then a decoder token after token."""
    encoder, decoder = mlp(128), Decoder().cuda().eval()

    @torch.no_grad()
    def generate(source, tokens):
        memory = count.call(encoder, source.cuda())
        ids, past = torch.zeros(4, 1, dtype=torch.long).cuda(), None
        for _ in range(tokens):
            logits, past = count.call(decoder, ids, past)
            ids = (logits + memory.mean()).argmax(-1)
        return ids

    for tokens in LENGTHS:
        generate(torch.zeros(4, 20, 128), tokens).tolist()
        count.request()


def generate_in_threads(count):
    """Four threads, each with three calls of generate()."""
    model = Decoder().cuda().eval()

    @torch.no_grad()
    def generate(prompt, tokens):
        ids, past = torch.tensor([prompt]).cuda(), None
        for _ in range(tokens):
            logits, past = count.call(model, ids, past)
            ids = logits.argmax(-1)
        return ids.tolist()

    def client(number):
        for tokens in LENGTHS[3 * number:3 * number + 3]:
            generate([1] * 8, tokens)
            count.request()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- servers -------------------------------------------------------------------------------------------------------------------

ASKED = "aabababbabaaabbbabab" "aabbababaabb"


def http_endpoints(count):
    """An HTTP server of the standard library with a model behind each of two paths."""
    models = {"/a": mlp(256), "/b": mlp(128)}
    widths = {"/a": 256, "/b": 128}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            x = torch.ones(16, widths[self.path]).cuda()
            with torch.inference_mode():
                y = count.call(models[self.path], x)
            count.request()
            body = str(y.shape).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)

    def client():
        for path in ASKED:
            urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/{path}").read()
        server.shutdown()

    asking = threading.Thread(target=client)
    asking.start()
    server.serve_forever(0.05)
    asking.join()


def two_endpoints(count):
    """Two functions with a model each, called as a list of paths says."""
    first, second = mlp(256), mlp(128)

    @torch.inference_mode()
    def classify(rows):
        return count.call(first, torch.ones(rows, 256).cuda()).sum().item()

    @torch.inference_mode()
    def embed(rows):
        return count.call(second, torch.ones(rows, 128).cuda()).mean(1).tolist()

    routes = {"a": classify, "b": embed}
    for path in ASKED:
        routes[path](16)


def endpoints_in_turn(count):
    """The same, strictly in turn."""
    first, second = mlp(256), mlp(128)

    @torch.inference_mode()
    def classify(rows):
        return count.call(first, torch.ones(rows, 256).cuda()).sum().item()

    @torch.inference_mode()
    def embed(rows):
        return count.call(second, torch.ones(rows, 128).cuda()).mean(1).tolist()

    routes = {"a": classify, "b": embed}
    for path in "ab" * 12:
        routes[path](16)


def pool_of_endpoints(count):
    """A pool of threads answers requests for two models."""
    models = {"a": mlp(256), "b": mlp(128)}

    @torch.inference_mode()
    def handle(path):
        y = count.call(models[path], torch.ones(16, 256 if path == "a" else 128).cuda())
        return y.sum().item()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(handle, ASKED))
    count.request(len(ASKED))


def workers_with_queue(count):
    """Threads take work from a queue in a loop of their own: no call is a request."""
    model, work = mlp(256), queue.Queue()

    def worker():
        while (rows := work.get()) is not None:
            with torch.inference_mode():
                count.call(model, torch.ones(rows, 256).cuda()).sum().item()

    for _ in range(40):
        work.put(16)
    for _ in range(4):
        work.put(None)
    threads = [threading.Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def scheduled(count):
    """An engine that batches what is there: 12 sequences in fewer iterations than tokens."""
    model = Decoder().cuda().eval()
    waiting, running = [[1] * (4 + i) for i in range(12)], []

    @torch.inference_mode()
    def iterate():
        while waiting and len(running) < 4:
            running.append([waiting.pop(), 6 + len(waiting) % 5])
        ids = torch.tensor([sequence[-1:] for sequence, _ in running]).cuda()
        logits, _ = count.call(model, ids)
        for row, token in zip(running, logits.argmax(-1)[:, 0].tolist()):
            row[0].append(token)
            row[1] -= 1
        running[:] = [row for row in running if row[1] > 0]

    while waiting or running:
        iterate()


# --- loops ---------------------------------------------------------------------------------------------------------------------

def reloaded(count):
    """A model is made, asked three times, deleted, and made again."""
    for _ in range(8):
        model = mlp(256)
        for _ in range(3):
            with torch.no_grad():
                count.call(model, torch.ones(16, 256).cuda()).sum().item()
        del model


def models_evaluated(count):
    """Five models one after another, eight batches each."""
    @torch.no_grad()
    def evaluate(model):
        total = 0
        for _ in range(8):
            total += count.call(model, torch.ones(16, 256).cuda()).sum().item()
        return total

    for out in range(5):
        evaluate(mlp(256, 100 + out))


def models_with_few_batches(count):
    """Ten models, three batches each."""
    models = [mlp(256, 10 + out) for out in range(10)]
    for model in models:
        for _ in range(3):
            with torch.no_grad():
                count.call(model, torch.ones(16, 256).cuda()).sum().item()


def evaluated_with_gradients(count):
    """An evaluation without no_grad(), forty batches."""
    model = mlp(256, 10)
    right = 0
    for _ in range(40):
        out = count.call(model, torch.ones(16, 256).cuda())
        right += (out.argmax(1) == 3).sum().item()


def one_batch_again(count):
    """The same input forty times; nothing is allocated between the calls."""
    model, x = mlp(256), torch.ones(16, 256).cuda()
    with torch.no_grad():
        for _ in range(40):
            count.call(model, x)


def layers_by_hand(count):
    """A model that is a function over layers: thirty passes of it."""
    embed, head = nn.Embedding(100, 64).cuda(), nn.Linear(64, 100).cuda()
    layers = [nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda() for _ in range(6)]

    def model(ids):
        x = embed(ids)
        for layer in layers:
            x = x + layer(x)
        return head(x)

    with torch.no_grad():
        for _ in range(30):
            count.call(model, torch.zeros(4, 16, dtype=torch.long).cuda()).argmax(-1).tolist()


def slices_of_a_model(count):
    """A model in two slices, each made for one call: the second lies where the first lay. Thirty passes."""
    net = nn.Sequential(mlp(), mlp(), mlp(256, 100))

    def model(x):
        hidden = net[:2](x)
        return net[2:](hidden)

    with torch.no_grad():
        for _ in range(30):
            count.call(model, torch.randn(32, 256, device="cuda")).argmax(-1).tolist()


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = mlp(256, 32), mlp(32, 256)

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)


def halves_by_method(count):
    """A model whose two methods are called one after the other: thirty passes."""
    model = Autoencoder().cuda()
    with torch.no_grad():
        for _ in range(30):
            count.call(lambda x: model.decode(model.encode(x)), torch.randn(32, 256, device="cuda")).sum().item()


# --- trained -------------------------------------------------------------------------------------------------------------------

def trials_with_graphs(count):
    """Twelve trials, each a new model with ten steps whose gradients have a graph of their own."""
    for _ in range(12):
        model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 1)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(10):
            x = torch.ones(32, 128).cuda()
            loss = count.call(model, x).pow(2).mean()
            loss.backward(create_graph=True)
            optimizer.step()
            optimizer.zero_grad()


def marks(place, kind):
    from vramtrace_step import step

    model, x = (mlp(256) if kind != "plain" else None), None
    optimizer = torch.optim.SGD(model.parameters(), 0.01) if kind == "trains" else None
    kept = torch.zeros(1000).cuda()
    for _ in range(8):
        if place == "begin":
            step()
        x = torch.ones(64, 256).cuda()
        if kind == "plain":
            y = x @ x.t()
            kept += y.sum()
        elif kind == "trains":
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            with torch.no_grad():
                kept += model(x).sum()
        if place == "end":
            step()
    return 8


def marks_at_end(count):
    count.steps = marks("end", "runs")


def marks_at_begin(count):
    count.steps = marks("begin", "runs")


def marks_at_end_plain(count):
    count.steps = marks("end", "plain")


def marks_at_begin_plain(count):
    count.steps = marks("begin", "plain")


def marks_at_end_training(count):
    count.steps = marks("end", "trains")


def marks_at_begin_training(count):
    count.steps = marks("begin", "trains")


# --- relatives: written before it was seen how they are counted ----------------------------------------------------------------

def drawn(count):
    """A text encoder, eight calls of a denoiser, a decoder; five pictures."""
    text, denoiser, decoder = mlp(128), mlp(256), mlp(256, 512)

    @torch.no_grad()
    def draw(prompt):
        words = count.call(text, prompt.cuda()).mean()
        latent = torch.randn(4, 256, device="cuda")
        for _ in range(8):
            latent = latent - 0.1 * count.call(denoiser, latent + words)
        return count.call(decoder, latent).cpu()

    for _ in range(5):
        draw(torch.zeros(4, 128))


def threads_answer(count):
    """A server with a thread for each connection, whose handler calls generate()."""
    model = Decoder().cuda().eval()

    @torch.no_grad()
    def generate(ids, tokens):
        past = None
        mask = torch.ones_like(ids)
        for _ in range(tokens):
            logits, past = count.call(model, ids * mask[:, :1], past)
            ids = logits.argmax(-1)
        return ids.tolist()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            generate(torch.zeros(1, 6, dtype=torch.long).cuda(), int(self.path[1:]))
            count.request()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def client(tokens):
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/{tokens}").read()

    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(client, LENGTHS))
    server.shutdown()
    serving.join()


def chats(count):
    """Three users in turn; each turn's answer goes on with the user's cache."""
    model, caches = Decoder().cuda().eval(), {}

    @torch.inference_mode()
    def reply(user, words):
        ids = torch.tensor([[1] * words]).cuda()
        for _ in range(5):
            logits, caches[user] = count.call(model, ids, caches.get(user))
            ids = logits.argmax(-1)
        return ids.tolist()

    for turn in range(4):
        for user in ("ada", "bob", "cem"):
            reply(user, 4 + turn)


def checkpoints_compared(count):
    """One model, into which six checkpoints are loaded one after another; seven batches for each."""
    model = mlp(256, 64)
    saved = [{name: value.cpu() for name, value in mlp(256, 64).state_dict().items()} for _ in range(6)]
    with torch.no_grad():
        for state in saved:
            model.load_state_dict(state)
            for _ in range(7):
                count.call(model, torch.ones(16, 256).cuda()).argmax(1).tolist()


def cells(count):
    """A recurrent cell, ten times for each sequence, and a head; six batches."""
    cell, head = nn.GRUCell(64, 64).cuda(), nn.Linear(64, 10).cuda()
    with torch.no_grad():
        for _ in range(6):
            x, h = torch.ones(10, 32, 64).cuda(), torch.zeros(32, 64).cuda()
            for part in x:
                h = count.call(cell, part, h)
            count.call(head, h).argmax(1).tolist()


def teacher_and_student(count):
    """Two models are asked about the same batch; twenty batches. Together they are one pass of the evaluation."""
    teacher, student = mlp(256, 10), mlp(256, 10)
    with torch.no_grad():
        for _ in range(20):
            x = torch.ones(16, 256).cuda()
            (teacher(x) - student(x)).abs().mean().item()
            count.passes += 1


def tokenless_generate(count):
    """generate() keeps no cache: each pass gets all tokens again, as a list."""
    model = Decoder().cuda().eval()

    @torch.no_grad()
    def generate(tokens, more):
        for _ in range(more):
            logits, _ = count.call(model, torch.tensor([tokens]).cuda())
            tokens = [*tokens, int(logits.argmax().clamp(0, 499))]
        return tokens

    for more in LENGTHS:
        generate([1, 2, 3], more)
        count.request()


def marks_after_setup(count):
    """Marks at the end of each round of a program without modules, which allocates much before."""
    from vramtrace_step import step

    tables, kept = [torch.ones(1000 + 300 * i).cuda() for i in range(5)], []
    for i in range(12):
        kept.append((tables[i % 5] * 2).sum().item())
        step()
    count.steps = 12


NAMES = [name for name, value in list(globals().items()) if callable(value) and getattr(value, "__code__", None)
         and value.__module__ == __name__ and value.__code__.co_varnames[:1] == ("count",)]
