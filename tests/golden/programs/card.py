"""Does what its arguments say on device 0, or the one chosen by device:NUMBER, one after the other, and tells what the stand-in
driver's books say.

    alloc:MIB  free (the latest of these)  pooled:MIB (of the default pool)  unpool (the latest of these)  synchronize
    library:PATH (takes 9 MiB by itself)  module  stream  unstream (the latest of these)  limit:BYTES
    host:MIB  create:MIB (physical memory)  graph:MIB
    export:FILE  open:FILE  sleep:SECONDS  sampled (waits for NVML)  ready:FILE  wait:FILE
    context (another one, from now on current)  destroy (the latest of these)  elsewhere (a thread without a context makes one)
    release, retain (the primary context)  kernel (the next of a module, for the first time)  die (by SIGKILL)
    truth:FILE     as JSON: bytes by use, of other processes, and in all
    nvml:SECONDS   uses NVML itself meanwhile, and looks at its own descriptors
"""
import ctypes
import json
import os
import pathlib
import signal
import sys
import threading
import time

cuda = ctypes.CDLL("libcuda.so.1")
for name in ("standin_device_bytes", "standin_other_bytes", "standin_use_bytes", "standin_host_bytes",
             "standin_card_readings"):
    getattr(cuda, name).restype = ctypes.c_uint64


def check(result):
    assert result == 0, result


def alloc(mib):
    address = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(mib) << 20)))
    return address


allocated, in_pool, streams = [], [], []


def alloc_and_keep(mib):
    allocated.append(alloc(mib))


def free():
    check(cuda.cuMemFree_v2(allocated.pop()))


def library(path):
    assert ctypes.CDLL(path).take_memory() == 0


def host(mib):
    check(cuda.cuMemHostAlloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(int(mib) << 20), 0))


def pooled(mib):
    address = ctypes.c_uint64()
    check(cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(int(mib) << 20), None))
    in_pool.append(address)


def unpool():
    check(cuda.cuMemFreeAsync(in_pool.pop(), None))


def synchronize():
    check(cuda.cuCtxSynchronize())


class Properties(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [("kind", ctypes.c_int), ("handles", ctypes.c_int), ("place", ctypes.c_int), ("device", ctypes.c_int),
                ("rest", ctypes.c_char * 16)]


def create(mib):
    check(cuda.cuMemCreate(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(int(mib) << 20),
                           ctypes.byref(Properties(kind=1, place=1, device=current)), ctypes.c_uint64(0)))


def module():
    check(cuda.cuModuleLoadData(ctypes.byref(ctypes.c_void_p()), b"image"))


def stream():
    streams.append(ctypes.c_void_p())
    check(cuda.cuStreamCreateWithPriority(ctypes.byref(streams[-1]), 1, 0))


def end_stream():
    check(cuda.cuStreamDestroy_v2(streams.pop()))


def kernel():
    global kernels
    kernels += 1
    if kernels == 1:
        check(cuda.cuModuleLoadData(ctypes.byref(loaded), b"image"))
    check(cuda.cuModuleGetFunction(ctypes.byref(ctypes.c_void_p()), loaded, f"kernel{kernels}".encode()))


def device(number):
    global current
    current = int(number)
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), current))
    check(cuda.cuCtxSetCurrent(context))


def user(number):
    os.setresuid(int(number), int(number), int(number))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def limit(size):
    check(cuda.cuCtxSetLimit(2, ctypes.c_size_t(int(size))))  # the device's heap


contexts = []


def another_context():
    contexts.append(ctypes.c_void_p())
    check(cuda.cuCtxCreate_v2(ctypes.byref(contexts[-1]), 0, 0))


def elsewhere():
    thread = threading.Thread(target=another_context)
    thread.start()
    thread.join()


def destroy():
    check(cuda.cuCtxDestroy_v2(contexts.pop()))


def release():
    check(cuda.cuDevicePrimaryCtxRelease_v2(0))


def retain():
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))


def sampled():
    """Until the recorder has asked NVML, from a while after the last change on; without either, a while."""
    time.sleep(0.15)
    libraries = os.environ["LD_LIBRARY_PATH"].split(":")
    asked = ("LD_PRELOAD" in os.environ and os.environ.get("VRAMTRACE_NVML") != "0" and
             os.environ.get("VRAMTRACE_STANDIN_NVML") != "fails" and
             any(os.path.exists(f"{folder}/libnvidia-ml.so.1") for folder in libraries))
    # an answer takes three readings, the writer thread takes it within 100 ms
    enough, end = cuda.standin_card_readings() + 6, time.monotonic() + (60 if asked else 0.5)
    while (not asked or cuda.standin_card_readings() < enough) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.25)


class AllocationNode(ctypes.Structure):  # CUDA_MEM_ALLOC_NODE_PARAMS
    _fields_ = [("kind", ctypes.c_int), ("handles", ctypes.c_int), ("place", ctypes.c_int), ("device", ctypes.c_int),
                ("rest", ctypes.c_char * 72),
                ("accesses", ctypes.c_void_p), ("access_count", ctypes.c_size_t), ("bytes", ctypes.c_size_t), ("address", ctypes.c_uint64)]


def graph(mib):
    made, executable, node = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    parameters = AllocationNode(kind=1, place=1, device=0, bytes=int(mib) << 20)
    check(cuda.cuGraphCreate(ctypes.byref(made), 0))
    check(cuda.cuGraphAddMemAllocNode(ctypes.byref(node), made, None, ctypes.c_size_t(0), ctypes.byref(parameters)))
    check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), made, ctypes.c_uint64(0)))
    check(cuda.cuGraphLaunch(executable, None))


class IpcHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def ready(path, data=b""):
    partial = pathlib.Path(f"{path}.{os.getpid()}")
    partial.write_bytes(data)
    partial.rename(path)


def wait(path):
    while not pathlib.Path(path).exists():
        time.sleep(0.01)


def export(path):
    handle = IpcHandle()
    check(cuda.cuIpcGetMemHandle(ctypes.byref(handle), alloc(7)))
    ready(path, bytes(handle))


def open_(path):
    wait(path)
    handle = IpcHandle.from_buffer_copy(pathlib.Path(path).read_bytes())
    check(cuda.cuIpcOpenMemHandle_v2(ctypes.byref(ctypes.c_uint64()), handle, 1))


def truth(path):
    books = {use: cuda.standin_use_bytes(current, use.encode())
             for use in ("context", "limit", "module", "stream", "allocation", "managed", "array", "physical", "pool")}
    books |= {"pid": os.getpid(), "own": cuda.standin_device_bytes(current), "others": cuda.standin_other_bytes(current),
              "host": cuda.standin_host_bytes()}
    assert sum(books[use] for use in ("context", "limit", "module", "stream", "allocation", "managed", "array", "physical",
                                      "pool")) == books["own"]
    ready(path, json.dumps(books).encode())


def descriptors():
    return {number: os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{number}")}


def nvml(seconds):
    before = descriptors()
    library = ctypes.CDLL("libnvidia-ml.so.1")
    card = ctypes.c_void_p()
    check(library.nvmlInit_v2())
    check(library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)))
    during = descriptors()
    assert len(during) == len(before) + 1  # its own
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        memory = (ctypes.c_uint64 * 3)()
        check(library.nvmlDeviceGetMemoryInfo(card, memory))
        assert memory[2] == cuda.standin_device_bytes(0) + cuda.standin_other_bytes(0)
        assert descriptors() == during
    check(library.nvmlShutdown())
    assert descriptors() == before
    with open("/proc/self/maps") as maps:
        print("nvml copies", sum("memfd:vramtrace" in line for line in maps) > 0)


context, loaded, kernels, current = ctypes.c_void_p(), ctypes.c_void_p(), 0, 0
check(cuda.cuInit(0))
device(current)
actions = {"alloc": alloc_and_keep, "free": free, "pooled": pooled, "unpool": unpool, "synchronize": synchronize, "library": library,
           "module": module, "stream": stream, "unstream": end_stream, "limit": limit, "host": host, "create": create,
           "user": user, "graph": graph, "export": export, "open": open_,
           "context": another_context, "destroy": destroy, "elsewhere": elsewhere, "release": release, "retain": retain,
           "kernel": kernel, "device": device, "die": die,
           "sampled": sampled, "sleep": lambda seconds: time.sleep(float(seconds)), "ready": ready, "wait": wait, "truth": truth,
           "nvml": nvml}
for step in sys.argv[1:]:
    action, *arguments = step.split(":", 1)
    actions[action](*arguments)
