"""The same for slots of fixed length, one for each sequence that may come, kept by an object; the logits of a long prompt do not fit."""
import sys

import torch
from torch import nn

from oom_truth import watch

SLOTS = 8 if "remedy" in sys.argv else 40


class KVCacheSlots:
    def __init__(self, slots, layers=4, length=2048, width=1024):
        self.keys = torch.zeros(layers, slots, length, width, dtype=torch.half, device="cuda")
        self.values = torch.zeros(layers, slots, length, width, dtype=torch.half, device="cuda")


class Model(nn.Module):
    def __init__(self, words=50_000, width=1024):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        return self.head(self.words(ids))  # asks


model = Model().half().cuda().eval()
slots = KVCacheSlots(SLOTS)
watch()
with torch.inference_mode():
    for length in (8, 16, 8, 4000):
        model(torch.zeros(1, length, dtype=torch.long, device="cuda"))[:, -1].argmax(-1)
