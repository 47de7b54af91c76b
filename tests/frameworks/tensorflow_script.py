"""Trains with TensorFlow; prints what its allocator says at each mark."""
import ctypes
import json

import tensorflow as tf

api, truth = ctypes.CDLL(None), {}


def take(name):
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())
    truth[name] = tf.config.experimental.get_memory_info("GPU:0")


def make_weights():
    first = tf.Variable(tf.zeros((300, 200)), name="first")
    return [first, tf.Variable(tf.zeros((200, 10)), name="second")]


def step(weights, batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.matmul(tf.nn.relu(tf.matmul(batch, weights[0])), weights[1]))
    take(f"forward{len(truth)}")
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.1 * gradient)


for device in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(device, True)
weights = make_weights()
take("made")
for _ in range(4):
    step(weights, tf.ones((64, 300)))
    take(f"step{len(truth)}")
compiled = tf.function(lambda x: tf.nn.relu(x + 1.0) * 2.0)
kept = [compiled(tf.ones((1 << 16,))) for _ in range(3)]
take("compiled")
del kept
take("dropped")
print(json.dumps(truth))
