"""An evaluation stores the whole output of each request for its log lines: logits, and the cache of keys and values with them."""
import dataclasses

import torch
from torch import nn

from leak_truth import STEPS


@dataclasses.dataclass
class CausalOutput:
    logits: torch.Tensor
    past_key_values: tuple


class Decoder(nn.Module):
    def __init__(self, words=500, d=128, layers=2):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, d), nn.Linear(d, words)
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(layers))

    def forward(self, tokens):
        x, past = self.embed(tokens), []
        for layer in self.qkv:
            q, k, v = (part.contiguous() for part in layer(x).chunk(3, -1))  # LEAK
            past.append((k, v))
            x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return CausalOutput(self.head(x[:, -1]), tuple(past))


@torch.no_grad()
def main(probe):
    model = Decoder().cuda().eval()
    results = {}
    for number in range(STEPS):
        tokens = torch.randint(0, 500, (2, 64)).cuda()
        outputs = model(tokens)
        results[f"prompt {number}"] = outputs
        del outputs
        probe.step()
    for name, outputs in results.items():
        print(name, tuple(outputs.logits.shape))
