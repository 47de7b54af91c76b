"""Rows of a card: what a library took for the program has the program's categories, what it took for itself is the library's."""
import json
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import vramtrace  # noqa: E402
from trace_file import ALLOC, CONTEXT_CREATE, DRIVER, MEMORY_INFO, TraceFile  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
CUDA, ONNX, CUBLAS, PROGRAM = 0x10010, 0x20010, 0x30010, 0x40010
PACKAGE = b"/usr/lib/python3/dist-packages/onnxruntime/capi/onnxruntime_inference_collection.py"
# the stack that takes it, bytes, the row of the card that it is in
TAKEN = [(1, 400 * MIB, ("category", "parameter")), (2, 100 * MIB, ("category", "activation")), (3, 30 * MIB, ("library", "ONNX Runtime")),
         (4, 9 * MIB, ("library", "cuBLAS")), (5, 7 * MIB, ("library", "cuBLAS")), (6, 50 * MIB, ("category", "unknown"))]


def test_of_onnx_runtime(tmp_path):
    trace = TraceFile()
    trace.process([b"python", b"serve.py"], b"/home/me", b"/usr/bin/python3")
    trace.device(0, 16 * GIB, b"GPU")
    for address, path in ((CUDA, b"libcudart.so.12"), (ONNX, b"libonnxruntime_providers_cuda.so"), (CUBLAS, b"libcublas.so.12"),
                          (PROGRAM, b"serve")):
        trace.module(address - 0x10, address + 0x1000, b"/usr/lib/" + path)
    trace.code(1, b"/home/me/serve.py", b"main")
    trace.code(2, PACKAGE, b"InferenceSession._create_inference_session")
    trace.code(3, PACKAGE, b"Session.run")
    for number, (native, python) in enumerate([([ONNX], [2, 1]), ([ONNX], [3, 1]), ([ONNX, PROGRAM], []), ([CUBLAS, ONNX], [3, 1]),
                                               ([CUBLAS, PROGRAM], []), ([PROGRAM], [1])], 1):
        trace.stack(number, native=[CUDA, *native], python=[(code, 0, 0x5000) for code in python])
    trace.event(MEMORY_INFO, DRIVER, size=16 * GIB - 300 * MIB, total=16 * GIB)
    trace.event(CONTEXT_CREATE, DRIVER, address=1)
    for number, (stack, size, _) in enumerate(TAKEN, 1):
        trace.event(ALLOC, DRIVER, address=number << 32, size=size, stack=stack)
    used = 300 * MIB + sum(size for _, size, _ in TAKEN)
    trace.card_use(used, [(4711, used, b"serve")], own=0)
    trace.write(tmp_path / "run.vrt")
    (device,) = json.loads(vramtrace("report", "--json", "--at", "end", tmp_path / "run.vrt").stdout)["devices"]
    expected = {}
    for _, size, row in TAKEN:
        expected[row] = expected.get(row, 0) + size
    rows = {(row["kind"], row.get("name")): row["bytes"] for row in device["gpu"]["rows"]}
    assert {key: size for key, size in rows.items() if key[0] in ("category", "library")} == expected
    assert sum(rows.values()) == used and rows["unexplained", None] == 0
