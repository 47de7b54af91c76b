"""A server keeps a table in nearly all that is free; then it captures graphs, which is more than what is left."""
import sys

import torch
from torch import nn

from oom_truth import watch

LEFT = (400 if "remedy" in sys.argv else 60) << 20
WIDTH = 2048


class Server:
    def __init__(self):
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(8))).cuda()
        self.table = torch.empty(torch.cuda.mem_get_info()[0] - LEFT, dtype=torch.uint8, device="cuda")  # kept
        self.graphs = {}

    @torch.no_grad()
    def capture(self, batch):
        x = torch.zeros(batch, WIDTH, device="cuda")
        self.layers(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = self.layers(x)  # asks
        self.graphs[batch] = graph, x, y


watch()
server = Server()
for batch in (512, 256, 128, 64):
    server.capture(batch)
