"""Keeps tensors until TensorFlow says that memory has run out. Prints what it says, and its counter then."""
import ctypes
import json

import tensorflow as tf

api, kept = ctypes.CDLL(None), []


def work():
    for _ in range(100):
        kept.append(tf.nn.relu(tf.ones((4096, 8192))))
        if hasattr(api, "vramtrace_mark"):
            api.vramtrace_mark(b"vramtrace.step")


for device in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(device, True)
try:
    work()
except tf.errors.ResourceExhaustedError as exception:
    message = str(exception)
print(json.dumps({"message": message, "in_use": tf.config.experimental.get_memory_info("GPU:0")["current"], "kept": len(kept)}))
