"""Servers in dry runs: what they ask of the driver, and what is said of a pool of pages is what its own objects say."""
import importlib.util
import json
import pathlib
import subprocess

import pytest

from dry import PROGRAM, PYTHON, dry, python

found = importlib.util.find_spec("transformers")  # not imported: torch needs the simulated libraries
is_there = found and (pathlib.Path(found.origin).parent / "generation" / "continuous_batching" / "cache_allocators").is_dir()

CONTINUOUS = '''
import json, torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
import transformers.generation.continuous_batching.cache as cache
made = []
real = cache.PagedAttentionCache.__init__
def noted(self, *args, **kwargs):
    real(self, *args, **kwargs)
    made.append(self)
cache.PagedAttentionCache.__init__ = noted
config = LlamaConfig(vocab_size=2000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=4, max_position_embeddings=512, dtype=torch.bfloat16)
config._attn_implementation = "sdpa"
with torch.device("cuda"):
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
wanted = GenerationConfig(max_new_tokens=6, eos_token_id=-1, pad_token_id=0, do_sample=False, num_blocks=16, max_batch_tokens=32)
model.generate_batch(inputs=[[5 + i + j for j in range(20)] for i in range(6)], generation_config=wanted, progress_bar=False)
pool = made[0]
print(json.dumps([pool.num_blocks, pool.max_tokens_read, pool.cache_tensor.untyped_storage().nbytes()]))
'''

@pytest.mark.skipif(not is_there, reason="of transformers 5.23")
def test_continuous_batching(tmp_path):
    (tmp_path / "batching.py").write_text(CONTINUOUS)
    done = python(tmp_path, tmp_path / "batching.py", options=["--gpu", "l4"])
    blocks, tokens, size = json.loads(done.output.splitlines()[-1])
    inference = done.report()["devices"][0]["inference"]
    told = [inference[f"kv_pool_{name}"] for name in ("blocks", "tokens", "bytes")]
    assert done.status == 0 and told[:2] == [blocks, tokens] and size <= told[2] < size + 512, (told, done.error)
    assert f"KV cache: {tokens:,} tokens of " in done.error and f" in {blocks:,} blocks" in done.error, done.error


WHAT_SERVERS_ASK = '''
import ctypes, json
nvml, cuda = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.CDLL("libcuda.so.1")
card, name, number, major, minor = ctypes.c_void_p(), ctypes.create_string_buffer(96), ctypes.c_uint(), ctypes.c_int(), ctypes.c_int()
told = [nvml.nvmlDeviceGetName(card, name, 96), nvml.nvmlInit(), nvml.nvmlInitWithFlags(0)]
assert not nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(card))
told += [nvml.nvmlDeviceGetName(card, name, 4), nvml.nvmlDeviceGetName(card, name, 96), name.value.decode()]
assert not nvml.nvmlDeviceGetIndex(card, ctypes.byref(number))
assert not nvml.nvmlDeviceGetCudaComputeCapability(card, ctypes.byref(major), ctypes.byref(minor))
told += [number.value, major.value, minor.value]

context, host, device, tensor_map = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(-1), (ctypes.c_uint64 * 16)(*[7] * 16)
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) and not cuda.cuCtxSetCurrent(context)
assert not cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4096), 0)
assert not cuda.cuPointerGetAttribute(ctypes.byref(device), 9, host)  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
assert not cuda.cuTensorMapEncodeTiled(ctypes.byref(tensor_map), *[0] * 11)
print(json.dumps([*told, device.value, sum(tensor_map)]))
'''


def test_what_servers_ask_of_the_driver(tmp_path):
    """vLLM finds its GPU through NVML before CUDA starts, and gives each rank views of page-locked memory of its own device."""
    (tmp_path / "asks.py").write_text(WHAT_SERVERS_ASK)
    done = python(tmp_path, tmp_path / "asks.py", options=["--gpu", "l40s:2"])
    assert done.status == 0, done.error
    assert json.loads(done.output.splitlines()[-1]) == [1, 0, 0, 7, 0, "NVIDIA L40S", 1, 8, 9, 1, 0]  # 1: not begun; 7: too little room


ENGINE = '''
import sys, torch, vllm.v1.worker.gpu.input_batch as batch
sampled, rejected = batch.get_num_sampled_and_rejected(torch.zeros(3, dtype=torch.int32, device="cuda"))
print(sampled.tolist(), rejected.tolist())
'''
COUNTS = '''
import torch
def get_num_sampled_and_rejected(sampled):
    return sampled, torch.full_like(sampled, 9)
'''


def test_each_request_gets_a_token(tmp_path):
    folder = tmp_path / "vllm" / "v1" / "worker" / "gpu"
    folder.mkdir(parents=True)
    (folder / "input_batch.py").write_text(COUNTS)
    (tmp_path / "engine.py").write_text(ENGINE)
    done = python(tmp_path, tmp_path / "engine.py", options=["--gpu", "l4"])
    assert done.status == 0 and done.output.splitlines()[-1] == "[1, 1, 1] [0, 0, 0]", done.output + done.error


# A server that keeps tokens, not blocks; its scheduler is where SGLang's is.
SCHEDULER = '''
import types
class Scheduler:
    def __init__(self, tokens):
        self.max_total_num_tokens, self.page_size, self.running_batch = tokens, 1, types.SimpleNamespace(reqs=[0, 1, 2])
        self.model_config = types.SimpleNamespace(context_len=100)
    def process_batch_result(self, batch, result):
        return result
'''
SCHEDULED = '''
import torch
from sglang.srt.managers.scheduler import Scheduler
class TokenPool:
    def allocate_kv_pool(self):
        self.keys = [torch.zeros(1001, 1024, device="cuda") for _ in range(8)]
model = torch.nn.Linear(1024, 1024, device="cuda")
pool, scheduler = TokenPool(), Scheduler(1000)
pool.allocate_kv_pool()
with torch.no_grad():
    for i in range(6):
        assert scheduler.process_batch_result(None, model(pool.keys[0][:3])).shape == (3, 1024)
'''


def test_a_pool_of_tokens(tmp_path):
    folder = tmp_path / "sglang" / "srt" / "managers"
    folder.mkdir(parents=True)
    (folder / "scheduler.py").write_text(SCHEDULER)
    (tmp_path / "serve.py").write_text(SCHEDULED)
    done = python(tmp_path, tmp_path / "serve.py", options=["--gpu", "l4"])
    assert done.status == 0, done.error
    inference = done.report()["devices"][0]["inference"]
    told = [inference[name] for name in ("forward_passes", "kv_pool_tokens", "kv_pool_sequences", "requests_at_once")]
    assert told == [6, 1000, 10, 3] and 0 <= inference["kv_pool_bytes"] - 8 * 1001 * 4096 < 1 << 20, inference
    assert "KV cache: 1,000 tokens of " in done.error and "10 sequences of 100" in done.error, done.error


SYMMETRIC = '''
import os, torch, torch.distributed as dist, torch.distributed._symmetric_memory as symmetric
torch.cuda.set_device(int(os.environ["RANK"]))
dist.init_process_group("nccl")
kept = symmetric.empty(8 << 20, dtype=torch.float32, device=torch.device("cuda", torch.cuda.current_device()))
dist.all_reduce(torch.ones(1000, device="cuda"))
dist.destroy_process_group()
print("ended", flush=True)
'''


def test_symmetric_memory_is_communication(tmp_path):
    """As servers' tensor parallel ranks have it for their own all-reduce: memory of the driver's, outside of the allocator."""
    (tmp_path / "symmetric.py").write_text(SYMMETRIC)
    done = dry(tmp_path, [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "symmetric.py"], "--gpu", "h100-80gb:2")
    assert done.status == 0 and done.output.count("ended") == 2, done.output + done.error
    for trace in done.trace.glob("*.vrt"):
        shown = json.loads(subprocess.run([PROGRAM, "report", "--json", trace], capture_output=True, text=True, check=True).stdout)
        held = shown["devices"][0]["peak"]["categories"]
        assert 32 << 20 <= held["communication"] <= 36 << 20 and not held.get("unknown"), held


# A server that lays out all that is left of the GPU; its objects are where vLLM's are.
TAKES_ALL = '''
import ctypes, sys, torch
from vllm import CacheConfig
parts = int(sys.argv[2])
total = torch.cuda.get_device_properties(0).total_memory
with torch.device("cuda"):
    model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192, bias=False) for _ in range(16 // parts)))
def allocate_kv_cache(blocks):
    return torch.empty(blocks, 1 << 20, dtype=torch.uint8, device="cuda")
config = CacheConfig((total * 9 // 10 - (4 << 30) // parts - (1 << 28)) >> 20, 16)
pool = allocate_kv_cache(config.num_gpu_blocks)
with torch.no_grad():
    for _ in range(8):
        model(torch.empty(4, 8192, device="cuda"))
ctypes.CDLL(None).vramtrace_inspect(b"served")
'''
CONFIG = "class CacheConfig:\n    def __init__(self, blocks, tokens):\n        self.num_gpu_blocks, self.block_size = blocks, tokens\n"


def test_a_pool_that_takes_what_there_is(tmp_path):
    """A larger GPU does not show what such a server needs: what is tried runs on the given one, and counts tokens."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text(CONFIG)
    (tmp_path / "serve.py").write_text(TAKES_ALL)
    tries = [word for parts in (2, 4) for word in ("--try", f"arg:parts={parts}")]
    done = dry(tmp_path, [PYTHON, "serve.py", "--parts", "1"], "--gpu", "l4", "--gpu-memory", "3GiB", *tries, "--json", "x.json")
    tokens = {parts: (((3 << 30) * 9 // 10 - (4 << 30) // parts - (1 << 28)) >> 20) * 16 for parts in (2, 4)}
    assert done.status == 1 and f"✓ fits with arg:parts=4: {tokens[4]:,} tokens" in done.error, done.error
    rows = {row["changes"]: row for row in json.loads((tmp_path / "x.json").read_text())["trials"]}
    assert not rows[""]["fits"] and rows[""]["needed_bytes"] is None, rows
    assert {parts: rows[f"arg:parts={parts}"]["kv_pool_tokens"] for parts in (2, 4)} == tokens, rows
