"""vLLM's engine in this process, which counts by itself what its objects hold: serve_truth.py MODEL [--graphs] [NAME=VALUE...]

At the mark "truth" prints a JSON line: bytes of storages by what holds them, and torch's own counter of all."""
import ctypes
import gc
import json
import os
import sys

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
import torch  # noqa: E402


def storages(tensors):
    """{address: bytes of its block, as the allocator says}"""
    blocks = {block["address"]: block["size"] for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]
              if block["state"] == "active_allocated"}
    return {address: blocks[address] for tensor in tensors if tensor.is_cuda and (address := tensor.untyped_storage().data_ptr()) in blocks}


def tensors_of(thing):
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from tensors_of(part)
    elif isinstance(thing, dict):
        yield from tensors_of(list(thing.values()))


def main():
    from vllm import LLM, SamplingParams
    more = {name: json.loads(value) for name, _, value in (word.partition("=") for word in sys.argv[2:] if "=" in word)}
    llm = LLM(model=sys.argv[1], load_format="dummy", enforce_eager="--graphs" not in sys.argv, **more)
    prompts = [{"prompt_token_ids": [5 + (i + number) % 200 for i in range(64)]} for number in range(12)]
    llm.generate(prompts, SamplingParams(temperature=0, max_tokens=16, ignore_eos=True), use_tqdm=False)
    runner = llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
    gc.unfreeze()  # vLLM freezes what is there once it has started
    gc.collect()
    ctypes.CDLL(None).vramtrace_inspect(b"truth")
    torch.empty(1, device="cuda")  # a safe point for the inspection
    held = {"parameter": storages(runner.model.parameters()), "buffer": storages(runner.model.buffers()),
            "kv_cache": storages(tensors_of(runner.kv_caches))}
    named = {address for found in held.values() for address in found}
    held["rest"] = {address: size for address, size in storages(thing for thing in gc.get_objects() if type(thing) is torch.Tensor).items()
                    if address not in named}
    print(json.dumps({"truth": {name: sum(found.values()) for name, found in held.items()}, "allocated": torch.cuda.memory_allocated()}),
          flush=True)


if __name__ == "__main__":
    main()
