"""Hugging Face's blog "Visualize and understand GPU memory in PyTorch" (train_memory), its first example: what each step adds,
MB (1e6 bytes)."""
import json

import torch


def added(before):
    return (torch.cuda.memory_allocated() - before) / 1e6


start = torch.cuda.memory_allocated()
model = torch.nn.Linear(10_000, 50_000, device="cuda")
model_added, start = added(start), torch.cuda.memory_allocated()
inputs = torch.randn(5_000, 10_000, device="cuda")
inputs_added, start = added(start), torch.cuda.memory_allocated()
outputs = model(inputs)
print(json.dumps({"run": "linear", "model": model_added, "inputs": inputs_added, "outputs": added(start)}))
