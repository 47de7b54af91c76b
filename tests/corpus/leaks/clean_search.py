"""A search over widths: every third step a new model with its optimizer takes the place of the last; the best stays."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class Search:
    def __init__(self):
        self.best, self.trial = None, 0

    def next(self):
        model = small_net(depth=3)
        self.trial += 1
        return model, torch.optim.Adam(model.parameters(), lr=10 ** -self.trial)

    def finished(self, model):
        if self.best is None or self.trial == 3:
            self.best = {name: value.clone() for name, value in model.state_dict().items()}


def main(probe):
    search = Search()
    for step in range(STEPS):
        if step % 3 == 0:
            model = optimizer = None
            model, optimizer = search.next()
        train_step(model, optimizer, batch())
        if step % 3 == 2:
            search.finished(model)
        probe.step()
