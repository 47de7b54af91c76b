#!/usr/bin/env python3
"""Trains a graph and writes the truth about where its autograd nodes were made.

    join_script.py NAME --truth FILE

PyTorch's anomaly mode keeps the Python traceback of every node's making. Each node is given a hook that marks its run
in the trace (`node N`), so that what is allocated between two marks belongs to the first one's node. The truth file is
JSON: {"nodes": {N: {"name", "frames"}}, "history": [[address, bytes, frames]...]}; frames are [file, line, function],
innermost first. A node made by the run of another, on a thread without Python, has the frames of that one. The history
is PyTorch's own record of allocations.
"""
import argparse
import json
import os
import re
import sys
import threading

import torch
import torch.utils.checkpoint
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models
import train_script

FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)')


def frames_of(node):
    while node is not None:
        found = [FRAME.match(entry).groups() for entry in node.metadata.get("traceback_", [])]
        if found:
            return [[file, int(line), function] for file, line, function in reversed(found)]
        node = node.metadata.get("parent_")
    return []


class Watch:
    """Marks the runs of nodes."""

    def __init__(self):
        self.mark = train_script.load_mark()
        self.seen = set()
        self.nodes = []

    def graph(self, *outputs):
        waiting = [tensor.grad_fn for tensor in outputs]
        while waiting:
            node = waiting.pop()
            if node is None or node in self.seen:
                continue
            self.seen.add(node)
            name = f"node {len(self.nodes)}"
            self.nodes.append({"name": node.name(), "frames": frames_of(node)})
            node.register_prehook(lambda gradients, name=name: self.mark(name))
            waiting += [next_node for next_node, _ in node.next_functions]

    def backward(self, loss):
        self.graph(loss)
        self.mark("backward")
        loss.backward()
        self.mark("end")


def of_model(name):
    def graph(watch):
        workload = models.make(name)
        for _ in range(2):
            inputs, targets = workload.batch()
            with workload.autocast():
                loss = workload.loss(workload.model(inputs), targets)
            watch.backward(loss)
            workload.optimizer.step()
            workload.optimizer.zero_grad()

    return graph


def in_place(watch):
    """Operators that allocate nothing: their backward does."""
    layers = nn.ModuleList(nn.Linear(256, 256 + 16 * i) for i in range(4)).cuda()
    for _ in range(2):
        total = 0
        for layer in layers:
            hidden = layer(torch.randn(64, 256, device="cuda"))
            hidden.relu_()
            hidden = hidden * 3.0
            hidden = hidden.view(2, 32, -1).transpose(0, 1)
            mask = torch.ones(64, 1, device="cuda")  # no node is made for it
            hidden = hidden[:, 1:]
            hidden.mul_(2.0)
            with torch.no_grad():
                scale = hidden.mean()
            hidden = hidden.unsqueeze(2).expand(32, 1, 3, -1)
            total = total + hidden.sum() * scale * mask.sum()
        watch.backward(total)


def reentrant(watch):
    """The older checkpointing: its nodes are made in backward, on a thread that counts for itself."""
    layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(3)).cuda()

    def block(layer, hidden):
        hidden = layer(hidden).relu_()
        hidden = hidden.view(8, 8, -1).transpose(0, 1)
        outputs = torch.sigmoid(hidden).reshape(64, 256) * 2.0
        watch.graph(outputs)  # in backward: its own graph
        return outputs

    for _ in range(2):
        hidden = torch.randn(64, 256, device="cuda", requires_grad=True)
        for layer in layers:
            hidden = torch.utils.checkpoint.checkpoint(block, layer, hidden, use_reentrant=True)
        watch.backward(hidden.exp().sum())


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        squares = values * values
        return squares * values

    @staticmethod
    def backward(context, gradient):
        (values,) = context.saved_tensors
        return 3 * values.square() * gradient


class Same(torch.autograd.Function):
    """Allocates nothing in forward."""

    @staticmethod
    def forward(context, values):
        return values.view_as(values)

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


def own_function(watch):
    layer = nn.Linear(256, 512).cuda()
    for _ in range(2):
        hidden = layer(torch.randn(64, 256, device="cuda"))
        hidden = Cube.apply(hidden)
        hidden = Same.apply(hidden)
        watch.backward(hidden.t().exp().sum())


def double_backward(watch):
    model = nn.Sequential(nn.Linear(256, 512), nn.Softplus(), nn.Linear(512, 1)).cuda()
    for _ in range(2):
        inputs = torch.randn(32, 256, device="cuda", requires_grad=True)
        outputs = model(inputs)
        (slope,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
        loss = outputs.mean() + slope.square().sum()
        watch.backward(loss)


def same_thread(watch):
    """Without a thread of the engine's own, the frames of the backward call lie under every node's."""
    torch.autograd.set_multithreading_enabled(False)
    in_place(watch)


def threads(watch):
    """Two threads make nodes in turn, each counting for itself: the same numbers stand for different nodes."""
    layers = nn.ModuleList(nn.Linear(256, 256 + 64 * i) for i in range(2)).cuda()
    turns, outputs = threading.Barrier(2), {}

    def forward(layer, name):
        hidden = torch.randn(64, 256, device="cuda")
        for _ in range(4):
            turns.wait()
            if name == 0:
                hidden = layer(hidden).t().relu_().t()
            else:
                hidden = (layer(hidden) * 2.0)[:, :256].sigmoid()
        outputs[name] = hidden.sum()

    for _ in range(2):
        workers = [threading.Thread(target=forward, args=(layer, name)) for name, layer in enumerate(layers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        watch.backward(outputs[0] + outputs[1])


GRAPHS = {
    **{name: of_model(name) for name in ("transformer_amp", "resnet50", "gpt", "gpt_checkpoint")},
    **{graph.__name__: graph
       for graph in (in_place, reentrant, own_function, double_backward, same_thread, threads)},
}


def history():
    return [
        [entry["addr"], entry["size"], [[frame["filename"], frame["line"], frame["name"]] for frame in entry["frames"]]]
        for entry in torch.cuda.memory._snapshot()["device_traces"][0]
        if entry["action"] == "alloc"
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=GRAPHS)
    parser.add_argument("--truth", metavar="FILE", required=True)
    arguments = parser.parse_args()
    models.settings()
    torch.manual_seed(0)
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=1000000)
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    watch = Watch()
    GRAPHS[arguments.name](watch)
    with open(arguments.truth, "w") as out:
        json.dump({"nodes": watch.nodes, "history": history()}, out)
    torch.autograd.set_detect_anomaly(False)
    models.finish_backward()


if __name__ == "__main__":
    main()
