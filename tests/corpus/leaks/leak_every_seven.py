"""The answers of a validation every seven steps, without a graph, are kept in a dict."""
import torch

from leak_truth import batch, small_net, train_step


def main(probe):
    probe.measure(every=7, first=6)
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    answers = {}
    for step in range(28):
        train_step(model, optimizer, batch())
        if step % 7 == 6:
            with torch.no_grad():
                answers[step] = model(batch(96))  # LEAK
        probe.step()
