"""Gradient norms with create_graph=True, kept: the graph of the gradients and of the forward under it."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []
    for _ in range(STEPS):
        train_step(model, optimizer, batch())
        loss = model(batch()).square().mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)  # LEAK
        norms.append(sum(g.square().sum() for g in gradients))  # LEAK
        probe.step()
