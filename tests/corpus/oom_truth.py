"""What a script knows when it runs out of memory, taken at that moment: PyTorch's counters and its own list of segments,
and the stand-in driver's books. Each time is one line of JSON on stdout. Nothing here allocates CUDA memory."""
import ctypes
import json
import os

import torch

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


def truth(asked):
    driver = _driver()
    return {
        "asked": asked,
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "driver": driver.standin_device_bytes(0),
        "other": driver.standin_other_bytes(0),
        "backward": torch._C._current_autograd_node() is not None,
        "holes": holes(),
    }


def tell(fact):
    os.write(1, (json.dumps(fact) + "\n").encode())


def watch():
    """Tells of every time that PyTorch runs out of memory."""
    torch._C._cuda_attach_out_of_memory_observer(lambda device, asked, total, free: tell(truth(asked)))
