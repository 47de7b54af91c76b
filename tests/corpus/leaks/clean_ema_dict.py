"""An average of the weights in a dict of tensors, which each step moves in place."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay, self.backup = decay, {}
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)

    def apply(self, model):
        for name, p in model.named_parameters():
            self.backup[name], p.data = p.data, self.shadow[name]

    def restore(self, model):
        for name, p in model.named_parameters():
            p.data = self.backup.pop(name)


def main(probe):
    model = small_net()
    ema = EMA(model)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        train_step(model, optimizer, batch())
        ema.update(model)
        if step % 6 == 5:
            ema.apply(model)
            with torch.no_grad():
                model(batch()).mean().item()
            ema.restore(model)
        probe.step()
