"""What a script knows when it runs out of memory, taken at that moment: PyTorch's counters and its own list of segments,
and the stand-in driver's books. Each time is one line of JSON on stdout. Nothing here allocates CUDA memory."""
import ctypes
import json
import os

import torch

RESERVED_NOW = 5  # cudaMemPoolAttrReservedMemCurrent
CARD_BYTES = 2 << 30  # as the test sets it


def _driver():
    library = ctypes.CDLL("libcuda.so.1")
    for name in ("standin_device_bytes", "standin_other_bytes"):
        getattr(library, name).restype = ctypes.c_uint64
    return library


def holes():
    """Free pieces of the allocator's segments: [address, bytes]."""
    found = []
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                found.append([address, block["size"]])
            address += block["size"]
    return sorted(found)


def pool_bytes():
    """What the driver's default memory pool has reserved."""
    runtime, pool, reserved = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p(), ctypes.c_uint64()
    assert runtime.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
    assert runtime.cudaMemPoolGetAttribute(pool, RESERVED_NOW, ctypes.byref(reserved)) == 0
    return reserved.value


def truth(asked, in_pools=False):
    """IN_POOLS: some memory comes from the driver's pools."""
    driver = _driver()
    return {
        "asked": asked,
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved() + (pool_bytes() if in_pools else 0),
        "driver": driver.standin_device_bytes(0),
        "other": driver.standin_other_bytes(0),
        "backward": torch._C._current_autograd_node() is not None,
        "holes": holes(),
    }


def tell(fact):
    os.write(1, (json.dumps(fact) + "\n").encode())


def watch(in_pools=False):
    """Tells of every time that PyTorch runs out of memory."""
    torch._C._cuda_attach_out_of_memory_observer(lambda device, asked, total, free: tell(truth(asked, in_pools)))
