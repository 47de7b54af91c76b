"""Arrays of CuPy, and what its pool counts at marks: cupy_pool.py TRUTH."""
import ctypes
import json
import pathlib
import sys

import cupy

api, told, pool = ctypes.CDLL(None), {}, cupy.get_default_memory_pool()


def take(name):
    cupy.cuda.Device().synchronize()
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())
    told[name] = {"used": pool.used_bytes(), "total": pool.total_bytes()}


kept = [cupy.zeros((1 << 20) * (number + 1), cupy.float32) for number in range(6)]
take("made")
del kept[1:4]
take("dropped")
pool.free_all_blocks()
take("emptied")
pathlib.Path(sys.argv[1]).write_text(json.dumps(told))
