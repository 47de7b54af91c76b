"""Decodes with caches of keys and values of several kinds, and says at each mark what blocks the cache's own tensors lie in.

    caches_script.py FOLDER KIND...

One process each: KIND.vrt, and KIND.log with lines of JSON: {"mark": NAME, "bytes": of the blocks}."""
import functools
import json
import pathlib
import sys

import torch

import children
import train_script

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "corpus"))
from inference import caches  # noqa: E402

TOKENS, MARKED = 8, (0, 1, 7)


def tensors_of(thing, seen):
    """The tensors that an object holds, through containers and attributes."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif id(thing) not in seen:
        seen.add(id(thing))
        inside = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else \
            vars(thing).values() if hasattr(thing, "__dict__") else ()
        for part in list(inside):
            yield from tensors_of(part, seen)


def block_bytes(tensors):
    starts = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.is_cuda}
    total = 0
    for segment in torch.cuda.memory_snapshot():
        for block in segment["blocks"]:
            mine = any(block["address"] <= start < block["address"] + block["size"] for start in starts)
            total += block["size"] if mine and block["state"] == "active_allocated" else 0
    return total


class Marks:
    def __init__(self, give):
        self.give, self.count = give, 0
        self.mark, self.inspect = train_script.load_mark(), train_script.load_mark("vramtrace_inspect")

    def take(self):
        name = f"token-{self.count}"
        if self.count in MARKED:
            (self.mark if self.count else self.inspect)(name)
            print(json.dumps({"mark": name, "bytes": block_bytes(tensors_of(self.give(), set()))}))
        self.count += 1


def loop(model, cache):
    marks, ids = Marks(lambda: cache), caches.prompt()
    for _ in range(TOKENS):
        ids = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
        marks.take()


def dynamic():
    from transformers import DynamicCache

    model = caches.tiny("Llama")
    loop(model, DynamicCache(config=model.config))


def static():
    from transformers import StaticCache

    model = caches.tiny("Llama")
    loop(model, StaticCache(config=model.config, max_cache_len=64))


def sliding():
    from transformers import DynamicCache

    model = caches.tiny("Mistral", sliding_window=20)
    loop(model, DynamicCache(config=model.config))


def quantized():
    from transformers.cache_utils import Cache, Fp8QuantizedLayer

    loop(caches.tiny("Llama"), Cache(layers=[Fp8QuantizedLayer() for _ in range(caches.LAYERS)]))


def cat():
    model, past = caches.Writer().cuda().eval(), [None] * caches.LAYERS
    marks, ids = Marks(lambda: past), caches.prompt()

    def remember(index, k, v):
        if past[index] is not None:
            k, v = torch.cat((past[index][0], k), 2), torch.cat((past[index][1], v), 2)
        past[index] = (k, v)
        return k, v

    for _ in range(TOKENS):
        ids = model(ids, remember).argmax(-1)
        marks.take()


def paged():
    model = caches.Writer().cuda().eval()
    model(caches.prompt(), lambda index, k, v: (k, v))
    engine = caches.Engine(model, 160)
    marks, ids = Marks(lambda: engine.gpu_blocks), caches.prompt(1)
    for _ in range(TOKENS):
        ids = engine.step("one", ids)
        marks.take()


def main():
    caches.imported()
    jobs = {kind: functools.partial(torch.no_grad()(globals()[kind])) for kind in sys.argv[2:]}
    print(json.dumps(children.run(jobs, pathlib.Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
