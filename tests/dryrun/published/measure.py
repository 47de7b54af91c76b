"""What the scripts here say: a line of JSON, MB (1e6 bytes)."""
import json

import torch


def tell(**said):
    print(json.dumps({**said, "allocated": torch.cuda.max_memory_allocated() / 1e6, "reserved": torch.cuda.max_memory_reserved() / 1e6}))
