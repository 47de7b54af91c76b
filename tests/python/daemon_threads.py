"""Ends the interpreter while daemon threads walk without the GIL, as fast as they can. Must exit with 0."""
import ctypes
import threading

import frames_support as support


def deep(n):
    if n:
        return deep(n - 1)
    frames = ctypes.c_uint32()
    support.WITHOUT_GIL.test_walk_ns(ctypes.c_size_t(512), ctypes.c_uint(1 << 31), ctypes.byref(frames))


for depth in (10, 100, 400):
    threading.Thread(target=deep, args=(depth,), daemon=True).start()
for _ in range(200):
    support.walk_hash()
