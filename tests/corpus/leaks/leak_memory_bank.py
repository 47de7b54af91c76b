"""A contrastive bank of keys: each step's keys are put behind it, and the line that cuts the oldest off is missing."""
import torch
from torch import nn

from leak_truth import STEPS, batch, small_net


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = small_net(out=128)
        self.bank = torch.empty(0, 128, device="cuda")

    def forward(self, x):
        queries = nn.functional.normalize(self.encoder(x), dim=1)
        keys = queries.detach()
        logits = torch.cat([(queries * keys).sum(1, keepdim=True), queries @ self.bank.t()], dim=1)
        self.bank = torch.cat([self.bank, keys])  # LEAK
        return (logits / 0.07).logsumexp(1).mean()


def main(probe):
    model = Contrast()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    for _ in range(STEPS):
        loss = model(batch(rows=128))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probe.step()
