#!/usr/bin/env python3
"""Trains a step under PyTorch's profiler and writes which operators it saw round each allocation.

    ops_script.py NAME --truth FILE

The profiled step is the one after the mark `profiled`. The truth file is JSON: {"made": [[address, operators]...],
"schemas": {"add_Tensor": "add" ...}}, allocations in order, with the operators that ran then, outermost first, as the
profiler names them, and the names of overloads' C++ classes.
"""
import argparse
import json
import os
import sys
import tempfile

import torch
import torch.utils.checkpoint
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "corpus")]
import models
import nets
import train_script
from training import loops


def of_model(name):
    workload = models.make(name)

    def step():
        inputs, targets = workload.batch()
        with workload.autocast():
            loss = workload.loss(workload.model(inputs), targets)
        loss.backward()
        workload.optimizer.step()
        workload.optimizer.zero_grad()

    return step


def of_net(model, make_optimizer, batch=nets.make_batch, forward=None):
    model = model.cuda()
    optimizer = make_optimizer(model.parameters())

    def step():
        inputs, targets = batch()
        functional.cross_entropy((forward or model)(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def detection():
    """Operators of a library beside PyTorch's own."""
    from torchvision import ops

    features = torch.randn(1, 16, 32, 32, device="cuda", requires_grad=True)
    boxes = torch.tensor([[0.0, 1.0, 2.0, 20.0, 20.0]] * 8, device="cuda")

    def step():
        ops.roi_align(features, boxes, 7).sum().backward()
        features.grad = None

    return step


def shared_gradients():
    """Gradients that cannot be taken as they are, so that they are copied where they are accumulated."""
    weight = torch.randn(256, 256, device="cuda", requires_grad=True)

    def step():
        (weight + weight).sum().backward()
        weight.grad = None
        weight.sum().backward()
        weight.grad = None

    return step


def ways_to_make():
    """Tensors made without a computation."""

    def step():
        host = torch.randn(1000)
        made = [host.cuda(), host.to("cuda", torch.float16), torch.tensor([1.0, 2.0], device="cuda"),
                torch.zeros(100, device="cuda"), torch.cuda.FloatTensor(1000), host.pin_memory().cuda(non_blocking=True),
                torch.empty(10, device="cuda").new_ones(2000), torch.arange(3000, device="cuda")]
        made += [tensor.clone() for tensor in made]
        made[0][10:500] = made[0][:490] + 1.0
        made[0].sort()
        torch.cat(made[:1] * 2)
        torch._foreach_add(made[:1], 1.0)

    return step


NETS = {
    "reentrant": lambda: (net := nets.small_net()) and of_net(
        net, torch.optim.Adam, forward=lambda inputs: net[5](torch.utils.checkpoint.checkpoint(
            net[:5], inputs.requires_grad_(), use_reentrant=True))),
    "fused": lambda: of_net(nets.small_net(), lambda parameters: torch.optim.AdamW(parameters, fused=True)),
    "one_by_one": lambda: of_net(nets.small_net(), lambda parameters: torch.optim.Adam(parameters, foreach=False)),
    "own_function": lambda: of_net(loops.OwnFunction(), torch.optim.AdamW),
    "own_optimizer": lambda: of_net(nets.small_net(), loops.Lion),
    "recurrent": lambda: of_net(loops.Recurrent(), torch.optim.Adagrad, nets.make_token_batch),
    **{make.__name__: make for make in (detection, shared_gradients, ways_to_make)},
}
STEPS = {**{name: (lambda name=name: of_model(name)) for name in models.MODELS}, **NETS}


def truth_of(trace):
    """From the profiler's trace: its events are in no order, and an operator's time holds those of what it calls."""
    operators, made = {}, []
    for event in trace["traceEvents"]:
        if event.get("cat") == "cpu_op":
            operators.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"], event["name"]))
        elif event.get("name") == "[memory]" and event["args"]["Device Type"] == 1 and event["args"]["Bytes"] > 0:
            made.append((event["ts"], event["tid"], event["args"]["Addr"]))
    truth = []
    for ts, thread, address in sorted(made):
        round_it = [(start, -end, name) for start, end, name in operators.get(thread, ()) if start <= ts <= end]
        truth.append([address, [name for _, _, name in sorted(round_it)]])
    return truth


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=STEPS)
    parser.add_argument("--truth", metavar="FILE", required=True)
    arguments = parser.parse_args()
    models.settings()
    torch.manual_seed(0)
    mark = train_script.load_mark()
    step = STEPS[arguments.name]()
    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        mark("profiled")
        step()
        torch.cuda.synchronize()
        mark("end")
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(folder + "/trace.json")
        with open(folder + "/trace.json") as file:
            truth = truth_of(json.load(file))
    schemas = {schema.name[6:] + ("_" + schema.overload_name if schema.overload_name else ""): schema.name[6:]
               for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")}
    with open(arguments.truth, "w") as out:
        json.dump({"made": truth, "schemas": schemas}, out)


if __name__ == "__main__":
    main()
