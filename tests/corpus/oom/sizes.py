"""Proposals of many sizes, of which few are kept: enough is free, but in pieces beside them. Remedy: expandable segments."""
import os
import random
import sys

if "remedy" in sys.argv:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
import torch  # noqa: E402

from oom_truth import watch  # noqa: E402

watch()
chance = random.Random(7)


def proposals(count):
    """Crops of many sizes, of which a few are kept."""
    crops = [torch.empty(chance.randint(15, 45) << 20, dtype=torch.uint8, device="cuda") for _ in range(count)]
    return crops[::6]


images = [torch.empty(240 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
del images
kept = proposals(36)
batch = torch.empty(900 << 20, dtype=torch.uint8, device="cuda")  # asks
