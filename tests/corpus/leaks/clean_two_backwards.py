"""Two losses share a trunk: the first backward keeps the graph, the second one lets it go; numbers go into a list."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    trunk, left, right = small_net(out=256), small_net(), small_net(out=4)
    optimizer = torch.optim.Adam([*trunk.parameters(), *left.parameters(), *right.parameters()])
    history = {"left": [], "right": []}
    for _ in range(STEPS):
        shared = trunk(batch(rows=64))
        first, second = left(shared).square().mean(), right(shared).abs().mean()
        optimizer.zero_grad()
        first.backward(retain_graph=True)
        second.backward()
        optimizer.step()
        history["left"].append(first.item())
        history["right"].append(second.detach().cpu())
        probe.step()
