"""FSDP2 training of an 8 B model, for torchrun: sharded_8b.py MODEL."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import AutoConfig, AutoModelForCausalLM

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(sys.argv[1]), dtype=torch.float32)
model.config.use_cache = False
model.gradient_checkpointing_enable()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.model.layers:
    fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
model.to_empty(device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for _ in range(3):
    x = torch.randint(0, 1000, (1, 4096), device="cuda")
    model(input_ids=x, labels=x).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if rank == 0:
        print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), flush=True)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
