"""Runs a model with ONNX Runtime on the device; prints what the stand-in driver's books say at each mark."""
import ctypes
import json

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

api, truth = ctypes.CDLL(None), {}
driver = ctypes.CDLL("libcuda.so.1")


def take(name):
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())
    truth[name] = None
    if hasattr(driver, "standin_allocation_bytes"):
        driver.standin_allocation_bytes.restype = ctypes.c_uint64
        truth[name] = driver.standin_allocation_bytes(0)


def make_model():
    weight = helper.make_tensor("weight", TensorProto.FLOAT, (1 << 20,), np.ones(1 << 20, np.float32).tobytes(), raw=True)
    graph = helper.make_graph([helper.make_node("Add", ["x", "weight"], ["sum"]), helper.make_node("Relu", ["sum"], ["y"])],
                              "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1 << 20,))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1 << 20,))], [weight])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


session = onnxruntime.InferenceSession(make_model(), providers=["CUDAExecutionProvider"])
assert session.get_providers()[0] == "CUDAExecutionProvider", session.get_providers()
take("loaded")
for number in range(3):
    session.run(None, {"x": np.ones(1 << 20, np.float32)})
    take(f"run{number}")
del session
take("closed")
print(json.dumps(truth))
