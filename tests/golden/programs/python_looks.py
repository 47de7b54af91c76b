"""Programs that would notice a look at their objects, for any Python: python_looks.py NAME prints what they notice.

What it prints must be the same with vramtrace and without. In the place of torch stand classes with the same names.
"""
import ctypes
import collections  # noqa: F401  (as torch does)
import functools  # noqa: F401
import gc
import os
import signal
import sys
import threading
import time
import types
import warnings
import weakref

SECONDS = 1.0


class Storage:
    def nbytes(self):
        return 4


class Tensor:
    is_cuda = property(lambda self: True)
    is_leaf = property(lambda self: True)
    dtype = property(lambda self: "torch.float32")
    shape = property(lambda self: (1,))
    grad = property(lambda self: None)
    grad_fn = property(lambda self: None)

    def numel(self):
        return 1

    def element_size(self):
        return 4

    def storage_offset(self):
        return 0

    def untyped_storage(self):
        return Storage()

    def data_ptr(self):
        return id(self)

    def get_device(self):
        return 0


held = Tensor()


class DisableTorchFunction:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


def make_torch():
    torch = types.ModuleType("torch")
    torch.Tensor = Tensor
    torch.dtype, torch.device = type("dtype", (), {}), type("device", (), {})
    torch.nn = types.SimpleNamespace(Parameter=type("Parameter", (Tensor,), {}))
    torch._C = types.SimpleNamespace(DisableTorchFunction=DisableTorchFunction, TensorBase=Tensor)
    modules = types.ModuleType("torch.nn.modules.module")
    modules.Module = type("Module", (), {})
    sys.modules.update({"torch": torch, "torch.nn.modules.module": modules})


def use_cuda():
    cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096)) == 0
    time.sleep(0.3)  # until the interpreter was found


asking = getattr(ctypes.CDLL(None), "vramtrace_look", lambda name: None)


def ask():
    asking(b"now")


def compute(seconds=SECONDS):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def signals():
    """What handlers of signals raise reaches the program."""
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    kept = [[number, [number]] for number in range(30000)]  # noqa: F841  (a census takes its time)
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    for which, error in ((signal.ITIMER_REAL, Stop), (signal.ITIMER_VIRTUAL, KeyboardInterrupt)):
        for delay in (0.01, 0.03, 0.05, 0.08):
            try:
                signal.setitimer(which, delay)
                ask()
                compute(4)
                print("lost", error)
            except error as caught:
                files, traceback = set(), caught.__traceback__
                while traceback:
                    files.add(os.path.basename(traceback.tb_frame.f_code.co_filename))
                    traceback = traceback.tb_next
                print(error.__name__, files)


def tracers():
    """Debuggers and profilers see the program, and not us."""
    files = set()

    def note(frame, *_):
        files.add(os.path.basename(frame.f_code.co_filename))
        return note

    sys.settrace(note), sys.setprofile(note)
    ask(), compute()
    sys.settrace(None), sys.setprofile(None)
    print([name for name in files if "vramtrace" in name])


def deep():
    """The last frames before the limit of recursion are the program's."""
    depths = []

    def descend(depth):
        if depth % 8 == 0 and depth > sys.getrecursionlimit() - 60:
            ask(), compute(0.02)
        depths.append(depth)
        descend(depth + 1)

    for _ in range(3):
        try:
            descend(0)
        except RecursionError:
            pass
    print(depths.count(100), max(depths) > sys.getrecursionlimit() - 60)


def tuples():
    """Others can build tuples from iterators meanwhile, which fails where somebody else has them too."""
    for _ in range(20):
        node = types.SimpleNamespace(tensor=Tensor())
        node.node = node
    errors, ended = [], []

    def build():
        while not ended:
            try:
                tuple(number for number in range(60))
            except SystemError as error:
                errors.append(repr(error))

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        ask(), compute(0.3)
    ended.append(1)
    for thread in threads:
        thread.join()
    print(errors[:1])


def coroutines():
    """What functions that caught an exception and go on let go is gone at once: those that wait, and another thread's."""
    import asyncio
    errors, watched, go_on = [], [], threading.Event()

    def fail():
        raise ValueError

    async def serve():
        request = Tensor()
        try:
            fail()
        except ValueError as error:
            errors.append(error)
        await asyncio.sleep(0.5)
        watched.append(weakref.ref(request))
        del request
        await asyncio.sleep(0.1)
        print(watched[-1]() is None)

    def work():
        request = Tensor()
        try:
            fail()
        except ValueError as error:
            errors.append(error)
        go_on.wait()
        watched.append(weakref.ref(request))
        del request
        print(watched[-1]() is None)

    async def main():
        task = asyncio.ensure_future(serve())
        await asyncio.sleep(0.1)
        ask(), compute(0.2)
        await task

    globals()["errors"] = errors
    thread = threading.Thread(target=work)
    thread.start()
    asyncio.run(main())
    go_on.set()
    thread.join()


def forks():
    """A thread that forks meanwhile has children with a collector, and switches its own for good."""
    warnings.simplefilter("ignore")
    kept = [[number, [number]] for number in range(30000)]  # noqa: F841  (a census takes its time)
    thresholds, wrong = gc.get_threshold(), []

    def fork():
        for _ in range(12):
            child = os.fork()
            if child == 0:
                os._exit(gc.get_threshold() != thresholds or not gc.isenabled())
            wrong.append(os.waitpid(child, 0)[1])
            time.sleep(0.02)
        gc.disable()

    for _ in range(4):
        thread = threading.Thread(target=fork)
        thread.start()
        ask(), compute(0.4)
        thread.join()
        compute(0.5)
        wrong.append(gc.isenabled())
        gc.enable()
    print(sum(wrong), gc.get_threshold() == thresholds)


class Layer:
    def __init__(self, cuda):
        self.cuda = cuda

    def forward(self):
        address = ctypes.c_uint64()
        assert self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(512)) == 0


def modules():
    """Calls of modules that are new, and a look that is asked for."""
    cuda = ctypes.CDLL("libcuda.so.1")
    for layer in [Layer(cuda) for _ in range(8)]:
        layer.forward()
        ask(), compute(0.02)
    print("done")


if __name__ == "__main__":
    make_torch(), use_cuda()
    globals()[sys.argv[1]]()
