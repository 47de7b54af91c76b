"""A loop of JAX's that marks its steps and keeps an array of each, until memory runs out. Prints which arrays JAX says are alive then,
and at each step."""
import ctypes
import gc
import json

import jax_on_card  # noqa: F401  (first)
import jax
import numpy as np

api, truth = ctypes.CDLL(None), {}


def mark(name):
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())


def take(name):
    gc.collect()
    mark(name)
    truth[name] = sorted([array.unsafe_buffer_pointer(), array.nbytes] for array in jax.live_arrays())


def make_weights():
    return {f"w{number}": jax.device_put(np.ones((2048, 2048), np.float32)) for number in range(4)}


@jax.jit
def update(weights):
    return jax.tree.map(lambda weight: weight * 0.9, weights)


def train():
    weights = make_weights()
    take("made")
    for number in range(100):
        weights = update(weights)
        jax.block_until_ready(weights)
        history.append(weights["w0"])
        take(f"step{number}")
        mark("vramtrace.step")


history = []
try:
    train()
except Exception as exception:
    message = str(exception)
take("refused")
print(json.dumps({"taken": truth, "message": message}))
