"""Fills the card with caches of keys and values, and says how many calls of the model, or caches, fitted.

    fits_script.py FOLDER KIND=COUNT...

One process each: NAME.log and NAME.vrt in FOLDER, after COUNT calls or caches as KIND, and when the card is full as KIND-full.
"""
import functools
import json
import os
import pathlib
import sys

import torch

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "corpus")]
import children  # noqa: E402
from inference.caches import Writer, imported  # noqa: E402

ROWS, PROMPT = 16, 32


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
                         max_position_embeddings=1 << 16, eos_token_id=None)
    return LlamaForCausalLM(config).cuda().eval()


def decode(model, cache, told, count):
    ids = torch.zeros(ROWS, PROMPT, dtype=torch.long).cuda()
    for told["count"] in range(count):
        ids = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
    told["count"] += 1


def dynamic(told, count):
    from transformers import DynamicCache

    model = llama()
    decode(model, DynamicCache(config=model.config), told, count)


def cat(told, count):
    model, past = Writer().cuda().eval(), [None] * 3
    ids = torch.zeros(ROWS, PROMPT, dtype=torch.long).cuda()

    def remember(index, k, v):
        if past[index] is not None:
            k, v = torch.cat((past[index][0], k), 2), torch.cat((past[index][1], v), 2)
        past[index] = (k, v)
        return k, v

    for told["count"] in range(count):
        ids = model(ids, remember).argmax(-1)
    told["count"] += 1


def static(told, count):
    """One cache after the other, each with a few tokens."""
    from transformers import StaticCache

    model, caches = llama(), []
    for told["count"] in range(count):
        caches.append(StaticCache(config=model.config, max_cache_len=64))
        decode(model, caches[-1], {}, 5)
    told["count"] += 1


def fill(kind, count):
    told = {"count": 0}
    try:
        with torch.inference_mode():
            globals()[kind](told, count)
    except torch.OutOfMemoryError:
        told["refused"] = True
    print(json.dumps(told))


def main():
    imported()
    jobs = {}
    for job in sys.argv[2:]:
        kind, _, count = job.partition("=")
        jobs[kind] = functools.partial(fill, kind, int(count))
        jobs[kind + "-full"] = functools.partial(fill, kind, 1 << 40)
    print(json.dumps(children.run(jobs, pathlib.Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
