"""Every fourth step the weights and the optimizer's state are copied, in place of the last copy."""
import copy

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Saver:
    def __init__(self, every):
        self.every, self.last = every, None

    def after_step(self, step, model, optimizer):
        if step % self.every == self.every - 1:
            self.last = {"step": step, "model": copy.deepcopy(model.state_dict()),
                         "optimizer": copy.deepcopy(optimizer.state_dict())}

    def restore(self, model, optimizer):
        model.load_state_dict(self.last["model"])
        optimizer.load_state_dict(copy.deepcopy(self.last["optimizer"]))


def main(probe):
    model, saver = small_net(), Saver(4)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        train_step(model, optimizer, batch())
        saver.after_step(step, model, optimizer)
        if step == 13:
            saver.restore(model, optimizer)
        probe.step()
