"""Trains with Paddle; prints at each mark what its allocator says, and where parameters, gradients and optimizer state lie."""
import ctypes
import gc
import json

import paddle
from paddle.base import core

api, truth = ctypes.CDLL(None), {}


def place_of(tensor):
    return [tensor.data_ptr(), tensor.numel().item() * tensor.element_size()]


def take(name, model=None, optimizer=None):
    seen = {}
    if model:
        seen["parameter"] = [place_of(parameter) for parameter in model.parameters()]
        seen["gradient"] = [place_of(parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
        states = [*optimizer._accumulators.values(), optimizer._learning_rate_map]
        seen["optimizer_state"] = [place_of(state) for named in states for state in named.values()]
    gc.collect()
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())
    gpu = paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count() > 0
    count = core.device_memory_stat_current_value if gpu else core.host_memory_stat_current_value
    truth[name] = {"in_use": count("Allocated", 0), **seen}


def make_model():
    return paddle.nn.Sequential(paddle.nn.Linear(300, 200), paddle.nn.ReLU(), paddle.nn.Linear(200, 11))


def step(model, optimizer, number):
    loss = paddle.sum(model(paddle.ones([64, 300])) ** 2)
    take(f"forward{number}", model, optimizer)
    loss.backward()
    take(f"backward{number}", model, optimizer)
    optimizer.step()
    optimizer.clear_grad(set_to_zero=False)
    del loss
    take(f"step{number}", model, optimizer)


model = make_model()
optimizer = paddle.optimizer.AdamW(parameters=model.parameters())
for number in range(4):
    step(model, optimizer, number)
kept = [paddle.nn.functional.relu(paddle.ones([1 << 14])) for _ in range(3)]
take("kept", model, optimizer)
del kept
take("dropped", model, optimizer)
print(json.dumps(truth))
