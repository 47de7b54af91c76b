"""Keeps 300 MiB more with each step, until memory is out."""
import torch

kept = []
for _ in range(1000):
    kept.append(torch.zeros(300 << 20, dtype=torch.uint8, device="cuda"))
