"""Trains with JAX, Optax and Flax, and prints at each mark by which paths it holds which arrays: path, device, address and bytes of
each part of each array, as jax.tree_util says it of the variables of the program."""
import collections
import ctypes
import dataclasses
import gc
import json
import sys
import typing

import jax_on_card  # noqa: F401  (first)
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.core import FrozenDict
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec

api, truth, between = ctypes.CDLL(None), {}, {}
inspect_now = getattr(api, "vramtrace_inspect", lambda name: None)  # looked up here: the first look makes objects


class Moments(typing.NamedTuple):
    first: dict
    second: dict


@dataclasses.dataclass
class Run:
    params: dict
    history: list


class Network(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(40, 50, rngs=rngs)
        self.norm = nnx.BatchNorm(50, rngs=rngs)
        self.blocks = nnx.List([nnx.Linear(50, 50, rngs=rngs) for _ in range(2)])


def parts(array):
    for shard in array.addressable_shards:
        yield shard.device.local_hardware_id, shard.data.unsafe_buffer_pointer(), shard.data.on_device_size_in_bytes()


def what_would_notice():
    """Arrays, references to them, objects, and how far the collector's next run is."""
    arrays = jax.live_arrays()
    return (len(arrays), sum(map(sys.getrefcount, arrays)), len(gc.get_objects()), gc.get_count()[0],
            sum(each["collections"] for each in gc.get_stats()))


def leaves(**variables):
    return [[variable + jax.tree_util.keystr(path), *part]
            for variable, tree in variables.items() for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
            if isinstance(leaf, jax.Array) and not leaf.is_deleted() for part in parts(leaf)]


def mark(name, variables):
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())
    between[name] = leaves(**variables)


def take(name, held):
    """HELD: called after the inspection; gives what the program's variables hold, by their names."""
    jax.block_until_ready(jax.live_arrays())
    gc.collect()
    before = what_would_notice()
    inspect_now(name.encode())
    for _ in range(100):  # the inspection is between two of these
        pass
    after = what_would_notice()
    found = leaves(**held())
    alive = [part for array in jax.live_arrays() if not array.is_deleted() for part in parts(array)]
    truth[name] = {"named": found, "alive": sorted(set(alive)), "changed": [b - a for a, b in zip(before, after)]}
    look_inside()


def look_inside():
    """An inspection may come at any time: what a function holds for a moment is not how the program calls it."""
    arrays = jax.live_arrays()
    latest = arrays[-1]  # noqa: F841
    inspect_now(b"inside")
    for _ in range(100):
        pass


def everything():
    names = ("params", "opt_state", "grads", "batch", "kept", "frozen", "state", "model", "trainer", "spread", "first")
    return {name: globals()[name] for name in names if name in globals()}


def make_params():
    layers = [{"w": jnp.full((30 + i, 40), 0.1), "b": jnp.zeros(30 + i)} for i in range(3)]
    return {"layers": layers, "head": {0: (jnp.ones((7, 9)),), 3: jnp.ones(11)}}


def loss(params, batch):
    return sum(jnp.sum(jnp.tanh(leaf)) for leaf in jax.tree.leaves(params)) * jnp.sum(batch)


def descend(params, moments, grads):
    """Adam by hand."""
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments.first, grads)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, moments.second, grads)
    return jax.tree.map(lambda p, m, v: p - m / (v ** 0.5 + 1e-6), params, first, second), Moments(first, second)


def train_by_hand():
    weights = make_params()
    moments = Moments(jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights))
    step = jax.jit(lambda p, m, x: descend(p, m, jax.grad(loss)(p, x)), donate_argnums=(0, 1))
    for _ in range(2):
        weights, moments = step(weights, moments, jnp.ones(5))
    run = Run(params=weights, history=[jnp.ones(13 + i) for i in range(3)])
    take("by_hand", lambda: everything() | {"weights": weights, "moments": moments, "run.history": run.history})


params = make_params()
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
opt_state = optimizer.init(params)
take("made", everything)


def update(params, opt_state, batch):
    if not between:  # nothing of the first step is there yet
        inspect_now(b"traced")  # while JAX's own functions hold all arguments
    grads = jax.grad(loss)(params, batch)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, grads


step = jax.jit(update, donate_argnums=(0, 1))
batch = jnp.ones((6, 8))
old = params
for number in range(6):
    params, opt_state, grads = step(params, opt_state, batch)
    if number in (0, 3):  # no inspection sees these
        mark(f"step{number}", {"params": params, "opt_state": opt_state, "grads": grads})
assert all(leaf.is_deleted() for leaf in jax.tree.leaves(old))
take("trained", everything)

kept = [jnp.ones(100 + i) for i in range(5)]
kept[1].delete()
hidden = collections.deque([jnp.ones(21), jnp.ones(22)])
frozen = FrozenDict({"a": {"b": jnp.ones(23)}})
take("kept", everything)
del grads, kept, frozen, hidden

train_by_hand()

state = TrainState.create(apply_fn=loss, params=make_params(), tx=optax.MultiSteps(optax.sgd(0.1, momentum=0.9), 4))
take("state", everything)

model = Network(nnx.Rngs(0))
trainer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
take("nnx", everything)

if len(jax.devices()) > 1:
    mesh = Mesh(jax.devices()[:2], "x")
    by_row, whole = NamedSharding(mesh, PartitionSpec("x")), NamedSharding(mesh, PartitionSpec())
    double = jax.jit(lambda tree: jax.tree.map(lambda leaf: 2 * leaf, tree))
    spread = double({"rows": jax.device_put(jnp.ones((8, 64)), by_row), "copies": jax.device_put(jnp.ones((3, 50)), whole)})
    take("spread", everything)
    first = spread["rows"].addressable_shards[0].data
    spread["rows"].delete()
    take("half", everything)
print(json.dumps({"taken": truth, "between": between}))
