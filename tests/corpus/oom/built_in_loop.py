"""Weights that do not fit: layers are made on the GPU one after the other, and each makes its own parameters."""
import torch
from torch import nn

from oom_truth import watch


class Layer(nn.Module):
    def __init__(self, d=4096):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d, d, dtype=torch.bfloat16), requires_grad=False)  # asks


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(100):
            self.layers.append(Layer())


watch()
with torch.device("cuda"):
    model = Model()
