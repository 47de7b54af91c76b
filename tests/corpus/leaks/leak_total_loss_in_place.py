"""The same with +=, which allocates nothing: two lines, of which the second holds the graph."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


def main(probe):
    model = small_net(depth=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    penalty_sum = torch.zeros((), device="cuda")
    for _ in range(STEPS):
        inputs = batch()
        train_step(model, optimizer, inputs)
        penalty = model(inputs).abs().mean()
        penalty_sum += penalty  # LEAK
        probe.step()
