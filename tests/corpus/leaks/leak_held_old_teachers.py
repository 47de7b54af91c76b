"""Self-distillation: each round freezes a copy of the student as a new teacher, and keeps the ones before."""
import copy

import torch

from leak_truth import STEPS, batch, small_net, train_step


class Distiller:
    def __init__(self):
        self.student = small_net(depth=1)
        self.optimizer = torch.optim.AdamW(self.student.parameters())
        self.rounds = {"teachers": []}

    def freeze(self):
        teacher = copy.deepcopy(self.student).eval()  # LEAK
        self.rounds["teachers"].append(teacher.requires_grad_(False))


def main(probe):
    distiller = Distiller()
    for _ in range(STEPS):
        train_step(distiller.student, distiller.optimizer, batch())
        distiller.freeze()
        probe.step()
