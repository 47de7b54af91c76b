"""Work put off with lambdas: what each closes over stays until the list is run, which it never is."""
import torch

from leak_truth import STEPS, batch, small_net


class Deferred:
    def __init__(self):
        self.calls = []

    def later(self, function):
        self.calls.append(function)


def main(probe):
    model, later = small_net(), Deferred()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        inputs = batch(64)
        out = model(inputs)
        out.logsumexp(-1).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        confusion = torch.softmax(out.detach(), -1)  # LEAK
        later.later(lambda table=confusion, step=step: print(step, table.mean()))
        probe.step()
