"""A sum of products of gradients with graphs; the gradients themselves go only in the next step."""
import torch

from leak_truth import STEPS, batch, small_net


def main(probe):
    model = small_net()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    curvature = 0
    for _ in range(STEPS):
        loss = model(batch()).tanh().square().mean()  # LEAK
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        product = sum((g * p.detach()).sum() for g, p in zip(gradients, parameters))
        curvature = curvature + product
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.detach()
        optimizer.step()
        optimizer.zero_grad()
        probe.step()
