"""RMM's own buffers, out of each of its pools. Prints, at each mark, the address and size of every DeviceBuffer that is alive, and what
the pools took from the driver.

RMM has NVIDIA's runtime inside, which refuses the stand-in; so at the bottom of its resources is one of its own kind that calls
the program, and that asks the driver. Streams are the default one, and nothing is copied."""
import ctypes
import json
import threading

import rmm
import rmm.mr

MIB = 1 << 20
driver, api, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None), ctypes.CDLL("libc.so.6")
libc.malloc.restype = ctypes.c_void_p
context = ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
taken, told, alive = {}, {}, {}


def take(size, stream):
    address = ctypes.c_uint64()
    if driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
        raise MemoryError
    taken[address.value] = size
    return address.value


def take_managed(size, stream):
    address = ctypes.c_uint64()
    assert driver.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(size), 1) == 0
    taken[address.value] = size
    return address.value


def give_back(address, size, stream):
    assert taken.pop(address) == size and driver.cuMemFree_v2(ctypes.c_uint64(address)) == 0


def mark(name):
    if hasattr(api, "vramtrace_mark"):
        api.vramtrace_mark(name.encode())
    told[name] = {"buffers": [[buffer.ptr, buffer.capacity()] for buffer in alive.values() if buffer.ptr],
                  "taken": sum(taken.values())}


def make(key, size, resource):
    alive[key] = rmm.DeviceBuffer(size=size, mr=resource)


def work(name, resource):
    for i, size in enumerate([1, 1000, 100_000, 700_001, MIB]):
        make((name, i), size, resource)
    make((name, "empty"), 0, resource)
    del alive[name, 1], alive[name, 3]
    make((name, "again"), 5000, resource)


def work_in_thread(number):
    assert driver.cuCtxSetCurrent(context) == 0
    for i in range(100):
        make((number, i), 1000 * i + number, kept["pool"])
        if i % 3 == 0:
            del alive[number, i]


bottom = rmm.mr.CallbackMemoryResource(take, give_back)
resources = {
    "bottom": lambda: bottom,
    "pool": lambda: rmm.mr.PoolMemoryResource(bottom, initial_pool_size=4 * MIB, maximum_pool_size=64 * MIB),
    "fixed": lambda: rmm.mr.FixedSizeMemoryResource(bottom, block_size=MIB, blocks_to_preallocate=8),
    "binning": lambda: rmm.mr.BinningMemoryResource(bottom, 18, 22),
    "statistics": lambda: rmm.mr.StatisticsResourceAdaptor(rmm.mr.PoolMemoryResource(bottom, initial_pool_size=4 * MIB)),
    "managed": lambda: rmm.mr.PoolMemoryResource(rmm.mr.CallbackMemoryResource(take_managed, give_back), initial_pool_size=4 * MIB),
    "limit": lambda: rmm.mr.LimitingResourceAdaptor(bottom, 8 * MIB),
}
kept = {name: make_resource() for name, make_resource in resources.items()}


def main():
    for name, resource in kept.items():
        work(name, resource)
        mark(name)
    refused = 0
    for resource in (kept["limit"], kept["pool"]):
        try:
            make("too much", 1 << 30, resource)
        except MemoryError:
            refused += 1
    threads = [threading.Thread(target=work_in_thread, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mark("threads")
    on_host = rmm.mr.CallbackMemoryResource(lambda size, stream: libc.malloc(ctypes.c_size_t(size)), lambda address, size, stream: None)
    host = rmm.DeviceBuffer(size=3 * MIB, mr=on_host)
    mark("host")
    alive.clear()
    mark("cleared")
    del on_host, host
    print(json.dumps({"told": told, "refused": refused, "version": rmm.__version__}))


if __name__ == "__main__":
    main()
