"""A worker that says why it cannot start: expert weights in a list of parameters, which do not fit."""
import sys

import torch
from torch import nn

from oom_truth import watch


class Experts(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.up = nn.ParameterList()
        for _ in range(count):
            self.up.append(torch.empty(width, 4 * width, device="cuda"))  # asks


def start(count):
    try:
        return Experts(count, 2048)
    except torch.OutOfMemoryError as error:
        print("cannot start:", str(error).partition(".")[0], file=sys.stderr)
        raise


def main():
    watch()
    start(60)


main()
