"""Keeps tensors until TensorFlow says that memory has run out, or three of them with memory that it took at once. Prints what it says,
and its counter then.

    tensorflow_memory_script.py [at-once]"""
import ctypes
import json
import sys

import tensorflow as tf

api, kept, at_once, message = ctypes.CDLL(None), [], "at-once" in sys.argv, None


def work():
    for _ in range(3 if at_once else 100):
        kept.append(tf.nn.relu(tf.ones((4096, 8192))))
        if hasattr(api, "vramtrace_mark"):
            api.vramtrace_mark(b"vramtrace.step")


for device in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(device, not at_once)
try:
    work()
except tf.errors.ResourceExhaustedError as exception:
    message = str(exception)
print(json.dumps({"message": message, "in_use": tf.config.experimental.get_memory_info("GPU:0")["current"], "kept": len(kept)}))
