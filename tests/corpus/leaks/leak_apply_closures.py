"""model.apply puts a hook on each linear layer that notes its output's statistics, and the output with them."""
import collections

import torch
from torch import nn

statistics = collections.defaultdict(list)


def observe(model):
    names = {module: name for name, module in model.named_modules()}

    def attach(module):
        if isinstance(module, nn.Linear):
            name = names[module]

            def note(module, inputs, output):
                statistics[name].append(output.detach())

            module.register_forward_hook(note)

    model.apply(attach)


def main(probe):
    model = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 192), nn.GELU(), nn.Linear(192, 96)).cuda()
    observe(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(20):
        loss = (model(torch.randn(40, 96, device="cuda")) - 1).abs().mean()  # LEAK
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
