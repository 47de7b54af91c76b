#!/usr/bin/env python3
"""Captures CUDA graphs into private pools, and writes what PyTorch's own snapshot says of each pool at each mark.

    graph_pools.py TRUTH

One pool is shared by the graphs of three batch sizes, another serves a training step and is given up."""
import json
import sys

import torch
from torch import nn

import models
import train_script


def private_pools(memory):
    """Bytes of the segments, of those with blocks in use, and of these blocks, of each pool that is not the common one."""
    pools = {}
    for segment in torch.cuda.memory_snapshot():
        if tuple(segment["segment_pool_id"]) != (0, 0):
            found = pools.setdefault(str(segment["segment_pool_id"]), {"bytes": 0, "block_bytes": 0, "held_bytes": 0})
            found["bytes"] += segment["total_size"]
            found["block_bytes"] += segment["allocated_size"]
            found["held_bytes"] += segment["total_size"] if segment["allocated_size"] else 0
    return {"pools": sorted(pools.values(), key=lambda pool: (-pool["bytes"], pool["block_bytes"])), "reserved": memory()}


class Served:
    """A model with a graph for each batch size."""

    def __init__(self, model, sizes):
        self.model, self.pool, self.graphs = model, torch.cuda.graph_pool_handle(), {}
        for rows in sizes:
            self.capture(rows)

    def capture(self, rows):
        inputs, graph = torch.zeros(rows, 1024, device="cuda"), torch.cuda.CUDAGraph()
        self.model(inputs)
        with torch.cuda.graph(graph, pool=self.pool):
            outputs = self.model(inputs)
        self.graphs[rows] = graph, inputs, outputs

    def __call__(self, batch):
        graph, inputs, outputs = self.graphs[len(batch)]
        inputs.copy_(batch)
        graph.replay()
        return outputs.clone()


def trained_once(model):
    """A step as one graph, which this function gives up when it returns."""
    batch = torch.randn(512, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(batch).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(batch).sum().backward()
    for _ in range(5):
        graph.replay()
    model.zero_grad(set_to_none=True)


def main():
    models.settings()
    mark, truth = train_script.load_mark(), {}

    def take(name):
        truth[name] = private_pools(torch.cuda.memory_reserved)
        mark(name)

    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    with torch.inference_mode():
        served = Served(model, (2048, 512, 64))
        for rows in (64, 512, 64, 2048):
            served(torch.randn(rows, 1024))
    take("served")
    trained_once(model)
    take("given_up")
    torch.cuda.empty_cache()
    take("emptied")
    with open(sys.argv[1], "w") as out:
        json.dump(truth, out)


main()
