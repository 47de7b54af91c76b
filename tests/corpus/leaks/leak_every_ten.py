"""An evaluation every ten steps with gradients on, whose output is kept: four times in forty steps."""
import torch

from leak_truth import batch, small_net, train_step


def main(probe):
    probe.measure(every=10, first=9, seen_at=35)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    history = []
    for step in range(41):
        train_step(model, optimizer, batch())
        if step % 10 == 9:
            history.append(model(batch(64)))  # LEAK
        probe.step()
