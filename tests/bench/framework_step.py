"""Trains a small model, compiled, and prints as JSON what a step and the start took: framework_step.py jax|tensorflow STEPS

All of a step is there but its kernels, which do nothing over the stand-in: the batch goes to the card, the step makes parameters,
state and loss anew (JAX gives up the old ones to it), the loss is waited for.
"""
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

import numpy

LAYERS, WIDTH, ROWS, FIRST_STEPS = 6, 128, 32, 20
api = ctypes.CDLL(None)


def make_jax():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "frameworks"))
    import jax_on_card  # noqa: F401  (first)
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.adam(1e-3)
    params = [{"w": jnp.ones((WIDTH, WIDTH)), "b": jnp.zeros(WIDTH)} for _ in range(LAYERS)]
    held = {"params": params, "state": optimizer.init(params)}

    def loss_of(params, batch):
        for layer in params:
            batch = jnp.tanh(batch @ layer["w"] + layer["b"])
        return jnp.mean(batch ** 2)

    def update(params, state, batch):
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss
    compiled = jax.jit(update, donate_argnums=(0, 1))

    def step(batch):
        held["params"], held["state"], loss = compiled(held["params"], held["state"], jax.device_put(batch))
        loss.block_until_ready()
    return step


def make_tensorflow():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    for device in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(device, True)
    weights = [tf.Variable(tf.ones(shape)) for _ in range(LAYERS) for shape in ((WIDTH, WIDTH), (WIDTH,))]
    moments = [[tf.Variable(tf.zeros_like(weight)) for weight in weights] for _ in range(2)]

    @tf.function
    def compiled(batch):
        with tf.GradientTape() as tape:
            for matrix, bias in zip(weights[::2], weights[1::2]):
                batch = tf.tanh(tf.matmul(batch, matrix) + bias)
            loss = tf.reduce_mean(batch ** 2)
        for weight, first, second, gradient in zip(weights, *moments, tape.gradient(loss, weights)):
            first.assign(0.9 * first + 0.1 * gradient)
            second.assign(0.999 * second + 0.001 * gradient ** 2)
            weight.assign_sub(1e-3 * first / (tf.sqrt(second) + 1e-8))
        return loss

    def step(batch):
        with tf.device("GPU:0"):
            compiled(tf.constant(batch)).numpy()
    return step


def life_s():
    """Since this process began."""
    started_ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def mark(text):
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(text)


def main():
    framework, steps = sys.argv[1], int(sys.argv[2])
    step = {"jax": make_jax, "tensorflow": make_tensorflow}[framework]()
    batch = numpy.ones((ROWS, WIDTH), numpy.float32)
    step(batch)
    start = {"start_s": life_s(), "start_cpu_s": time.process_time()}
    for _ in range(FIRST_STEPS):
        step(batch)
    times = []
    mark(b"measured")
    cpu_s = time.process_time()  # of all threads, the recorder's too
    for _ in range(steps):
        started_s = time.perf_counter()
        step(batch)
        times.append((time.perf_counter() - started_s) * 1000)
    cpu_s = time.process_time() - cpu_s
    mark(b"end")
    print(json.dumps({**start, "step_ms": statistics.median(times), "step_cpu_ms": cpu_s / steps * 1000}))


if __name__ == "__main__":
    main()
