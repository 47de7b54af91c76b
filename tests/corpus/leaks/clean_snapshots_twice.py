"""Two copies of the weights, ten steps apart, and no more: a snapshot at the start and one in the middle."""
import torch

from leak_truth import batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters())
    snapshots = []
    for step in range(30):
        train_step(model, optimizer, batch())
        if step in (9, 19):
            snapshots.append([p.detach().clone() for p in model.parameters()])
        probe.step()
