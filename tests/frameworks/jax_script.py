"""Computes with JAX; prints at each mark the arrays that it says are alive on the device, and its allocator's counters."""
import ctypes
import gc
import json

import jax_on_card  # noqa: F401  (first)
import jax
import jax.numpy as jnp
import numpy as np

api, truth = ctypes.CDLL(None), {}


def take(name):
    jax.block_until_ready(jax.live_arrays())
    gc.collect()
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())
    truth[name] = {"blocks": sorted([array.unsafe_buffer_pointer(), array.nbytes] for array in jax.live_arrays()),
                   "in_use": jax.devices()[0].memory_stats()["bytes_in_use"]}


def make_parameters():
    return {"first": {"kernel": jax.device_put(np.zeros((300, 200), np.float32))}, "second": jnp.ones((200, 11))}


def loss(parameters, batch):
    return jnp.sum(jnp.tanh(batch * parameters["first"]["kernel"][0]) ** 2) + jnp.sum(parameters["second"])


parameters = make_parameters()
take("made")
step = jax.jit(lambda p, x: jax.tree.map(lambda w, g: w - 0.1 * g, p, jax.grad(loss)(p, x)), donate_argnums=0)
for number in range(3):
    batch = jnp.full((64, 300), 2.0)[:, :200]
    parameters = step(parameters, batch)
    take(f"step{number}")
kept = [parameters["second"] + i for i in range(5)]
take("kept")
kept[1].delete()
del kept[3]
take("deleted")
del kept
take("dropped")
print(json.dumps(truth))
