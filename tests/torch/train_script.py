#!/usr/bin/env python3
"""Trains a model of models.py and writes the truth about its memory at marks of every step.

    train_script.py NAME [--steps N] [--truth FILE] [--history FILE] [--snapshot FILE] [--stacks python|all]

Marks `fwd`, `bwd` and `step` (after forward, backward and optimizer step), and `snapshot` when that is taken, are also
given to vramtrace where it is loaded. The truth file is JSON, {"model", "steps", "context_bytes", "marks": [MARK...]}; a MARK
has "name", "step", "allocated", "max_allocated", "reserved" (what PyTorch says), "driver_bytes" and
"allocation_bytes" (what the stand-in driver says, null without one), and "categories": bytes of the blocks
that hold the storages of parameters, buffers, gradients, optimizer state and inputs, each block in one
category only (the first).

Taking the truth allocates no CUDA memory: it reads addresses and the allocator's own snapshot.
"""
import argparse
import bisect
import ctypes
import json
import os
import pickle
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models


def load_mark(function="vramtrace_mark"):
    """This function of a preloaded recorder, or a stand-in that does nothing."""
    try:
        mark = getattr(ctypes.CDLL(None), function)
    except AttributeError:
        return lambda name: None
    mark.argtypes, mark.restype = [ctypes.c_char_p], None
    return lambda name: mark(name.encode())


class DriverTruth:
    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
            self.library.standin_device_bytes.restype = ctypes.c_uint64
            self.library.standin_allocation_bytes.restype = ctypes.c_uint64
            self.library.standin_use_bytes.restype = ctypes.c_uint64
        except (OSError, AttributeError):  # a real driver
            self.library = None

    def of(self, device):
        if self.library is None:
            return {"driver_bytes": None, "allocation_bytes": None}
        return {
            "driver_bytes": self.library.standin_device_bytes(device),
            "allocation_bytes": self.library.standin_allocation_bytes(device),
        }

    def context_bytes(self, device):
        if self.library is None:
            return None
        return self.library.standin_use_bytes(device, b"context")


class Blocks:
    """The allocator's live blocks of a device, to look an address up in."""

    def __init__(self, device):
        # cudaMallocAsync has no blocks to tell of: there a storage is its own block.
        self.known = torch.cuda.get_allocator_backend() == "native"
        spans = []
        for segment in torch.cuda.memory_snapshot() if self.known else []:
            if segment["device"] != device:
                continue
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"].startswith("active"):
                    spans.append((address, block["size"]))
                address += block["size"]
        spans.sort()
        self.starts = [start for start, _ in spans]
        self.sizes = [size for _, size in spans]

    def spans(self):
        """{(start, bytes)}"""
        return set(zip(self.starts, self.sizes))

    def holding(self, storage):
        """(start, bytes) of the block that holds this storage, or None."""
        address = storage.data_ptr()
        if not self.known:
            return address, storage.nbytes()
        index = bisect.bisect_right(self.starts, address) - 1
        if index < 0 or address >= self.starts[index] + self.sizes[index]:
            return None
        return self.starts[index], self.sizes[index]


def storages(tensors, device):
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.device.index == device:
            yield tensor.untyped_storage()


def tensors_of_state(optimizer):
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, torch.Tensor))


def categories(workload, inputs, device):
    blocks, seen, found = Blocks(device), set(), {}
    parameters = list(workload.model.parameters())
    groups = {
        "parameter": parameters,
        "buffer": list(workload.model.buffers()),
        "gradient": [parameter.grad for parameter in parameters],
        "optimizer_state": list(tensors_of_state(workload.optimizer)),
        "input": list(inputs),
    }
    for category, tensors in groups.items():
        found[category] = 0
        for storage in storages(tensors, device):
            block = blocks.holding(storage)
            if block is not None and block not in seen:
                seen.add(block)
                found[category] += block[1]
    return found


def tensors_by_name(models, optimizers):
    """Every CUDA tensor of them: which model it is of, what it is called there, and where it lies. A storage that
    several names share comes once for each; the state of a parameter goes by its first name."""
    found, names = [], {}

    def add(role, index, name, tensor):
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
            found.append({"role": role, "model": index, "name": name, "address": tensor.data_ptr(),
                          "storage": tensor.untyped_storage().data_ptr(), "bytes": tensor.numel() * tensor.element_size(),
                          "storage_bytes": tensor.untyped_storage().nbytes(), "shape": list(tensor.shape),
                          "dtype": str(tensor.dtype).removeprefix("torch.")})

    for index, model in enumerate(models):
        for name, parameter in model.named_parameters(remove_duplicate=False):
            names.setdefault(parameter, (index, name))
            add("parameter", index, name, parameter)
            add("gradient", index, name, parameter.grad)
        for name, buffer in model.named_buffers(remove_duplicate=False):
            add("buffer", index, name, buffer)
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            index, name = names.get(parameter, (-1, ""))
            for key, value in state.items():
                add(key, index, name, value)
    return found


def workspace_bytes(early):
    """What cuBLAS's workspaces held, and what those that are among EARLY blocks did: they are freed to learn it, so only at the end.
    None where PyTorch has no such call."""
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is None:
        return {"workspace_bytes": None, "first_workspace_bytes": None}
    device = torch.cuda.current_device()
    before, blocks = torch.cuda.memory_allocated(), Blocks(device).spans()
    clear()
    freed = blocks - Blocks(device).spans()
    return {"workspace_bytes": before - torch.cuda.memory_allocated(),
            "first_workspace_bytes": sum(size for start, size in freed & early)}


class Truth:
    # Marks have "tensors" too: those of watched() by name; and the first of each name asks for an inspection, since a short
    # run on a busy machine need not get one.
    with_names = False

    def __init__(self, workload):
        self.workload = workload
        self.mark, self.look = load_mark(), load_mark("vramtrace_inspect")
        self.driver = DriverTruth()
        self.marks = []
        self.first_blocks = set()  # at the first mark

    def take(self, name, step, inputs):
        device = torch.cuda.current_device()
        before = torch.cuda.memory_allocated()
        first = all(mark["name"] != name for mark in self.marks)
        (self.look if self.with_names and first else self.mark)(name)
        entry = {
            "name": name,
            "step": step,
            "allocated": before,
            "max_allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.memory_reserved(),
            **self.driver.of(device),
            "categories": categories(self.workload, inputs, device),
        }
        if self.with_names:
            entry["tensors"] = tensors_by_name(*self.watched())
        self.first_blocks = self.first_blocks or Blocks(device).spans()
        assert torch.cuda.memory_allocated() == before, "taking the truth must not allocate"
        self.marks.append(entry)

    def watched(self):
        """Models and optimizers."""
        return [self.workload.model], [self.workload.optimizer]

    def document(self, steps):
        return {
            "model": self.workload.name,
            "steps": steps,
            "context_bytes": self.driver.context_bytes(torch.cuda.current_device()),
            "marks": self.marks,
        }


def train(workload, steps, truth):
    workload.model.train()
    for step in range(steps):
        inputs, targets = workload.batch()
        with workload.autocast():
            loss = workload.loss(workload.model(inputs), targets)
        truth.take("fwd", step, (inputs, targets))
        loss.backward()
        truth.take("bwd", step, (inputs, targets))
        workload.optimizer.step()
        truth.take("step", step, (inputs, targets))
        workload.optimizer.zero_grad()


def dump_history(path):
    """PyTorch's own record of every event: (action, addr, size, frames ...) per device."""
    snapshot = torch.cuda.memory._snapshot()
    if path.endswith(".json"):
        with open(path, "w") as out:
            json.dump(snapshot["device_traces"], out, default=str)
    else:
        with open(path, "wb") as out:
            pickle.dump(snapshot["device_traces"], out)


def dump_snapshot(path):
    """All that PyTorch knows of its allocator: the same events, and segments with their blocks."""
    with open(path, "wb") as out:
        pickle.dump(torch.cuda.memory._snapshot(), out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(models.MODELS))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--truth", metavar="FILE")
    parser.add_argument("--names", action="store_true", help="the truth has every tensor by name")
    parser.add_argument("--history", metavar="FILE", help="PyTorch's events, as .json or .pickle")
    parser.add_argument("--snapshot", metavar="FILE", help="PyTorch's events and segments, as .pickle")
    parser.add_argument("--stacks", choices=["python", "all"], default="python", help="frames in the history")
    arguments = parser.parse_args()
    if arguments.history or arguments.snapshot:
        torch.cuda.memory._record_memory_history(stacks=arguments.stacks, max_entries=1000000)
    torch.manual_seed(0)
    workload = models.make(arguments.name)
    Truth.with_names = arguments.names
    truth = Truth(workload)
    train(workload, arguments.steps, truth)
    torch.cuda.synchronize()
    if arguments.truth:
        with open(arguments.truth, "w") as out:
            json.dump({**truth.document(arguments.steps), **workspace_bytes(truth.first_blocks)}, out, indent=1)
    if arguments.history:
        dump_history(arguments.history)
    if arguments.snapshot:
        truth.mark("snapshot")
        dump_snapshot(arguments.snapshot)
    last = truth.marks[-1] if truth.marks else {}
    print(f"{arguments.name}: {arguments.steps} steps, peak {last.get('max_allocated', 0)} bytes allocated")


if __name__ == "__main__":
    main()
