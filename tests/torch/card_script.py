"""Trains, waits for a sample, and tells what PyTorch and the stand-in driver say."""
import ctypes
import json
import sys
import time

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(int(sys.argv[2])):
    model(torch.randn(64, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
# A reading that is as the one before is left out, and that may have come in the middle of a step: this one differs.
kept = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
time.sleep(1)
driver = ctypes.CDLL("libcuda.so.1")
driver.standin_use_bytes.restype = driver.standin_device_bytes.restype = ctypes.c_uint64
free, total = torch.cuda.mem_get_info()
with open(sys.argv[1], "w") as out:
    json.dump({"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
               "peak": torch.cuda.max_memory_allocated(), "used": total - free,
               "context": driver.standin_use_bytes(0, b"context"), "modules": driver.standin_use_bytes(0, b"module"),
               "device": driver.standin_device_bytes(0)}, out)
