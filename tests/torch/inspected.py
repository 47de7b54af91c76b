#!/usr/bin/env python3
"""Programs that would notice an inspection of their objects: inspected.py NAME prints what they notice.

What a program prints must be the same with vramtrace and without it.
"""
import collections
import ctypes
import gc
import hashlib
import os
import random
import sys
import threading
import time
import types
import warnings
import weakref

import numpy
import torch
from torch import nn

from models import finish_backward

STEPS = 6


def fingerprint(*parts):
    text = hashlib.sha256()
    for part in parts:
        text.update(part if isinstance(part, bytes) else repr(part).encode())
    return text.hexdigest()[:16]


def make_net():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.BatchNorm1d(128), nn.Linear(128, 8))


def train(model, optimizer, steps=STEPS, after=lambda step: None):
    for step in range(steps):
        loss = model(torch.randn(16, 64).cuda()).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after(step)


def results():
    """A computation whose values are real (on the CPU) beside one on the card; all streams of random numbers."""
    torch.set_num_threads(1)  # with two threads, 1 of 150 runs without vramtrace printed another result
    random.seed(3), numpy.random.seed(4), torch.manual_seed(5)
    model, beside = make_net(), make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    other = torch.optim.SGD(beside.parameters(), lr=0.01, momentum=0.9)
    for _ in range(STEPS):
        loss = model(torch.randn(16, 64)).square().mean() + random.random() + float(numpy.random.rand())
        loss.backward(), optimizer.step(), optimizer.zero_grad()
        beside(torch.randn(16, 64).cuda()).sum().backward(), other.step(), other.zero_grad()
        print(loss.item().hex())
    for value in model.state_dict().values():
        print(fingerprint(value.numpy().tobytes()))
    print(fingerprint(random.getstate(), numpy.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes(),
                      torch.cuda.get_rng_state().numpy().tobytes()))
    print(torch.is_grad_enabled(), torch.is_autocast_enabled(), torch.get_default_dtype(), gc.isenabled())


def objects():
    """No object more from step to step, once the first have warmed up."""
    model = make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    counts = []
    gc.collect()
    gc.disable()
    train(model, optimizer, 3)
    ask = getattr(ctypes.CDLL(None), "vramtrace_inspect", lambda name: None)  # torch keeps what it makes to tell of a storage,
    ask(b"now")  # as long as the storage: so each is looked at once before the counting, however busy the machine
    train(model, optimizer, 1)
    train(model, optimizer, 30, lambda step: counts.append(len(gc.get_objects())))
    print("grown by", counts[-1] - counts[1], "objects in", len(counts) - 2, "steps")


def lifetimes():
    """What the program lets go is gone at once, memory and all."""
    model = make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    gc.collect()
    gc.disable()
    train(model, optimizer)
    watched = [weakref.ref(thing) for thing in (model, optimizer, model[0], model[0].weight, model[0].weight.untyped_storage())]
    del model, optimizer, train.__globals__["make_net"]
    print([reference() is None for reference in watched[:1]])
    gc.collect()  # optimizers hold themselves by a cycle of their own
    print([reference() is None for reference in watched])
    torch._C._cuda_clearCublasWorkspaces()
    print(torch.cuda.memory_allocated())


class Shy(nn.Module):
    """Counts whoever asks it for anything."""
    asked = 0

    def __init__(self):
        super().__init__()
        self.inner = make_net()

    def __getattr__(self, name):
        Shy.asked += 1
        return super().__getattr__(name)

    @property
    def device(self):
        raise RuntimeError("asked for the device")

    def forward(self, x):
        return self._modules["inner"](x)


class Hostile:
    """Whatever is asked of it goes wrong."""

    def refuse(self, *_):
        os.write(1, b"refused\n")
        raise RuntimeError("hostile")

    __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getattr__ = __repr__ = __str__ = __instancecheck__ = refuse
    __class__ = property(refuse)
    __dict__ = property(refuse)


class Subclass(torch.Tensor):
    asked = 0

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        Subclass.asked += 1
        return super().__torch_function__(function, types, args, kwargs or {})


def user_code():
    """Nothing of the program's own is called."""
    hostile, things = Hostile(), [Hostile(), 1]  # noqa: F841
    model = Shy().cuda()
    tensor = torch.zeros(4, device="cuda").as_subclass(Subclass)  # noqa: F841
    model.inner[0].weight = nn.Parameter(model.inner[0].weight.detach())
    optimizer = torch.optim.AdamW(model.parameters())
    Shy.asked = Subclass.asked = 0
    train(model, optimizer)
    print(Shy.asked, Subclass.asked)


class Dispatching(torch.Tensor):
    """A wrapper that answers for its shape and its device."""
    asked = 0

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device,
                                                   dispatch_sizes_strides_policy="sizes", dispatch_device=True)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        Dispatching.asked += 1
        return NotImplemented


class Overriding(torch.Tensor):
    asked = 0

    def __getattribute__(self, name):
        Overriding.asked += 1
        return super().__getattribute__(name)


def subclasses():
    """Nor what a subclass of tensors has in the place of torch's own."""
    model = make_net().cuda()
    model.register_buffer("wrapper", Dispatching(torch.zeros(4, device="cuda")))
    model.register_buffer("other", torch.zeros(4, device="cuda").as_subclass(Overriding))
    optimizer = torch.optim.AdamW(model[0].parameters())
    Dispatching.asked = Overriding.asked = 0
    train(model, optimizer)
    print(Dispatching.asked, Overriding.asked)


def modes():
    """A mode that sees every call of torch, and one that sees every operator."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    model = make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with Functions(), Operators():
        train(model, optimizer, 3)
    print(len(seen), fingerprint(seen))


def tracers():
    """Debuggers and profilers see the program, and not us."""
    files = set()

    def note(frame, event, argument):
        files.add(os.path.basename(frame.f_code.co_filename))
        return note

    model = make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    sys.settrace(note), sys.setprofile(note)
    train(model, optimizer, 3)
    sys.settrace(None), sys.setprofile(None)
    print([name for name in files if "vramtrace" in name])


def strict():
    """Warnings are errors, parameters are odd, and the call comes from deep down."""
    warnings.simplefilter("error")
    model = make_net().cuda()
    model.register_buffer("none", None)
    model.register_parameter("nothing", None)
    model[0].weight.retains_grad
    scaled = (model[3].weight * 2).requires_grad_()  # not a leaf, and its gradient is not to be asked for  # noqa: F841
    model.lazy = nn.LazyLinear(4, device="cuda")
    optimizer = torch.optim.AdamW(parameter for name, parameter in model[:4].named_parameters())

    def deep(levels):
        return deep(levels - 1) if levels else train(model[:4], optimizer, 2)

    deep(sys.getrecursionlimit() - 150)
    print("done")


def threads():
    """Trained beside the main thread, which waits; then beside one that computes."""
    model = make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    worker = threading.Thread(target=train, args=(model, optimizer))
    worker.start()
    worker.join()
    worker = threading.Thread(target=train, args=(model, optimizer, 200))
    worker.start()
    total = 0
    while worker.is_alive():
        total += sum(range(1000)) > 0
    worker.join()
    print(total > 0, threading.active_count())


def gradients_freed():
    """By a thread beside the main one, which requests inspections: PyTorch has no GIL while it frees a gradient."""
    parameters = [nn.Parameter(torch.zeros(64, 64, device="cuda")) for _ in range(40)]
    optimizer, ended = torch.optim.SGD(parameters), []

    def free_gradients():
        while not ended:
            sum(parameter.square().sum() for parameter in parameters).backward()
            assert all(parameter.grad is not None for parameter in parameters)  # only then has it a Python object
            optimizer.zero_grad()

    worker = threading.Thread(target=free_gradients)
    worker.start()
    request = getattr(ctypes.CDLL(None), "vramtrace_inspect", abs)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        request(0)
        sum(range(100))
    ended.append(True)
    worker.join()
    print(threading.active_count())


def compiled():
    """torch.compile compiles what is the program's, and not us."""
    model = torch.compile(make_net().cuda(), backend="aot_eager")
    train(model, torch.optim.AdamW(model.parameters()))
    from torch._dynamo.utils import counters
    print(dict(counters["stats"]), dict(counters["graph_break"]), dict(counters["frames"]))


def forked():
    """Children of a process that was looked at: by fork alone, and a loader's workers."""
    model = make_net().cuda()
    train(model, torch.optim.AdamW(model.parameters()))
    child = os.fork()
    if child == 0:
        sum(i for i in range(100000))
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    loader = torch.utils.data.DataLoader(torch.zeros(64, 4), batch_size=8, num_workers=2)
    print(sum(len(batch) for batch in loader))


def long():
    """Trains for longer than a short life, and keeps more and more."""
    model = make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    kept, end = [], time.monotonic() + 10
    while time.monotonic() < end:
        train(model, optimizer, 1)
        kept.append(torch.zeros(1024, device="cuda"))
        time.sleep(0.02)
    print("done")


def large():
    """Trains beside data of millions of objects, in containers of several kinds; the most processor time of one step, in
    seconds (the time that goes by would also tell how busy the machine is)."""
    samples = [(f"image {i}", [i % 1000]) for i in range(200_000)]
    index = {i: object() for i in range(300_000)}
    queue, members = collections.deque(object() for _ in range(300_000)), {object() for _ in range(300_000)}
    owner = types.SimpleNamespace(rows=[object() for _ in range(1_000_000)], tables=[[object()] * 3 for _ in range(200_000)])
    model = make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    longest, end = 0.0, time.monotonic() + 1
    while time.monotonic() < end:
        began = time.process_time()
        train(model, optimizer, 1)
        longest = max(longest, time.process_time() - began)
    print(longest, *map(len, (samples, index, queue, members, owner.rows, owner.tables)))


def broken():
    """torch is not what it was."""
    model = make_net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    torch._C.DisableTorchFunction = None
    ask = getattr(ctypes.CDLL(None), "vramtrace_inspect", lambda name: None)  # a busy machine may leave no time for others
    for _ in range(10):
        train(model, optimizer, 4)
        ask(b"again")
    print("done")


if __name__ == "__main__":
    {function.__name__: function for function in (results, objects, lifetimes, user_code, subclasses, modes, tracers, strict, threads,
                                                  gradients_freed, compiled, forked, long, large, broken)}[sys.argv[1]]()
    finish_backward()
