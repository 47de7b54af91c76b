"""Programs that would notice an inspection at their objects, for any Python: python_inspections.py NAME prints what they notice.

What it prints must be the same with vramtrace and without. In the place of torch stand classes with the same names.
"""
import ctypes
import collections  # noqa: F401  (as torch does)
import functools  # noqa: F401
import gc
import os
import select
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
    grad_fn, requires_grad = property(lambda self: None), property(lambda self: False)

    def numel(self):
        return 1

    def element_size(self):
        return 4

    def storage_offset(self):
        return 0

    def untyped_storage(self):
        return Storage()

    def data_ptr(self):
        return 1 << 40

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
    time.sleep(wait(0.3))  # until the interpreter was found


library = ctypes.CDLL(None)
inspected = hasattr(library, "vramtrace_inspect")
asking = library.vramtrace_inspect if inspected else library.atoi  # something of the same kind that does nothing


def wait(seconds):
    """How long to wait for an inspection: without vramtrace none will come."""
    return seconds if inspected else seconds / 10


def ask():
    asking(b"now")


def compute(seconds=SECONDS):
    end = time.monotonic() + wait(seconds)
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
                compute(40)  # until the signal comes
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


class Things:
    pass


class Slots:
    __slots__ = ("tensor",)


def make_things():
    """What a census goes through: functions, methods, generators, tracebacks, cells, cycles, slots, attributes."""
    def fail():
        mine = Tensor()  # noqa: F841
        raise ValueError(1)

    def make_function():
        cell = [Tensor()]
        return lambda first, second=Tensor(), *, third=Tensor(): cell

    things, slots, cycle = Things(), Slots(), Things()
    things.tensor, slots.tensor, cycle.tensor = Tensor(), Tensor(), Tensor()
    cycle.cycle = cycle
    try:
        fail()
    except ValueError as error:
        things.error = error
    things.slots, things.method, things.function = slots, Storage().nbytes, make_function()
    things.generator = (item for item in [Tensor()])
    next(things.generator)
    return things


def look_again(times, seconds=0.15):
    for _ in range(times):
        ask(), compute(seconds)


def audit():
    """All events that a hook is told of."""
    things, events, on = make_things(), [], []  # noqa: F841

    def hook(event, arguments):
        if on:
            events.append((event, str(arguments[1:] if event in ("compile", "ctypes.call_function") else arguments)))

    sys.addaudithook(hook)
    on.append(1)
    look_again(3)
    on.clear()
    for event in events:
        print(*event)
    print("done")


def state():
    """All that the interpreter tells of itself: what changes by three inspections, once there was one."""
    import asyncio
    import faulthandler
    things, collections_seen, seen = make_things(), [], []  # noqa: F841
    gc.callbacks.append(lambda phase, information: collections_seen.append(phase))
    faulthandler.enable()
    loop = asyncio.new_event_loop()
    read, write = os.pipe2(os.O_NONBLOCK)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    sys.excepthook = threading.excepthook = sys.unraisablehook = lambda *_: seen.append("hook")
    reference = weakref.ref(things, lambda _: seen.append("gone"))  # noqa: F841
    ended = []
    threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(lambda: bool(ended), True)]).start()

    def measure():
        return (gc.get_threshold(), gc.isenabled(), len(gc.get_objects()), gc.get_freeze_count(), len(gc.garbage), len(gc.callbacks),
                [each["collections"] for each in gc.get_stats()], len(collections_seen), len(object.__subclasses__()),
                len(Exception.__subclasses__()), sorted(sys.modules), threading.active_count(), len(threading._active),
                len(sys._current_frames()), sys.gettrace(), sys.getprofile(), sys.getswitchinterval(), len(warnings.filters),
                sys.getrecursionlimit(), seen[:], len(asyncio.all_tasks(loop)), signal.pthread_sigmask(signal.SIG_BLOCK, []),
                [type(part).__name__ for each in (fresh, fresh.function, fresh.generator) for part in gc.get_referents(each)],
                weakref.getweakrefcount(things), len(gc.get_referents(things)), sys.getrefcount(things), sys.getrefcount(None) > 0,
                faulthandler.is_enabled(), len(os.listdir("/proc/self/task")) - len(os.listdir("/proc/self/task")))

    look_again(2)
    fresh = make_things()  # has what its kind has before anybody asks for it: no dict, from 3.11 on
    gc.collect()  # which takes tuples out of its lists
    measure()
    before = measure()
    look_again(3)
    after = measure()
    for one, other in zip(before, after):
        print(one == other, "" if one == other else other - one if isinstance(one, int) else (one, other))
    print(os.read(read, 100) if select.select([read], [], [], 0)[0] else "nothing")
    signal.set_wakeup_fd(-1)
    ended.append(1)
    faulthandler.disable(), loop.close()


def counts():
    """How near the next collection is."""
    gc.collect()
    look_again(2)
    before = gc.get_count()
    look_again(3)
    after = gc.get_count()
    print(after[1:] == before[1:], abs(after[0] - before[0]) < 3)


def collections_in_time():
    """The collector runs in the same iterations, whatever is freed and made anew in between."""
    things, ran, kept, iteration = make_things(), [], [], -1  # noqa: F841
    gc.callbacks.append(lambda phase, seen: ran.append((iteration, seen["generation"], phase)))

    def work(depth):
        mixed = [((number,), (number, depth), {number: depth}, [depth], slice(number)) for number in range(5)]
        kept.append(mixed if depth % 3 else [dict(a=1), (1, 2, 3)])
        return work(depth - 1) if depth else None

    looks = {3: 1, 40: 2, 41: 1, 90: 1}
    look_again(2)  # what is compiled and found once
    for order in range(2):  # the second with free lists that the first has filled
        gc.collect()
        kept.clear(), ran.clear()
        for iteration in range(120):
            work(6)
            for _ in range(looks.get(iteration, 0)):
                before = gc.get_count()
                ask()
                for _ in range(1000):  # the inspection is between two of these
                    pass
                after = gc.get_count()
                if before != after:
                    print(order, iteration, "counts differ by", [b - a for a, b in zip(before, after)])
        print(ran)


def traced():
    """Memory that stays: tracemalloc's, and the interpreter's own count of blocks."""
    import tracemalloc
    tracemalloc.start(5)
    things = make_things()  # noqa: F841
    look_again(3)
    sizes, blocks = [], []
    for _ in range(3):
        look_again(3)
        gc.collect()
        snapshot = tracemalloc.take_snapshot()
        sizes.append(sum(trace.size for trace in snapshot.traces if any("vramtrace" in frame.filename for frame in trace.traceback)))
        blocks.append(sys.getallocatedblocks())
        del snapshot
    print(max(sizes) < 100_000, max(sizes) - min(sizes) < 8000, max(blocks) - min(blocks) < 400)


def deliveries():
    """Signals come to who is to have them, each once: the handler, the descriptor that it wakes, a thread that waits for one."""
    kept = [[number, [number]] for number in range(30000)]  # noqa: F841  (a census takes its time)
    handled, waited, read_write, ended = threading.Semaphore(0), threading.Semaphore(0), os.pipe2(os.O_NONBLOCK), []
    signal.set_wakeup_fd(read_write[1])
    signal.signal(signal.SIGUSR2, lambda *_: handled.release())
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

    def wait():
        for _ in range(20):
            signal.sigwait([signal.SIGUSR1])
            waited.release()

    def send():
        for _ in range(20):
            for number, semaphore in ((signal.SIGUSR2, handled), (signal.SIGUSR1, waited)):
                os.kill(os.getpid(), number)
                semaphore.acquire()
        ended.append(1)

    for work in (wait, send):
        threading.Thread(target=work).start()
    while not ended:
        look_again(1, 0.05)
    print(handled.acquire(blocking=False), waited.acquire(blocking=False), os.read(read_write[0], 100) == bytes([signal.SIGUSR2]) * 20)
    print(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def trapped():
    """A filter of system calls, with a handler for what it traps: also for what an inspection comes to (here in the tensors' own code)."""
    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    class Step(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint32)]

    getppid, trap, allow = {"x86_64": 110, "aarch64": 173}[os.uname().machine], 0x00030000, 0x7fff0000
    steps = (Step * 4)(Step(0x20, 0, 0, 0), Step(0x15, 0, 1, getppid), Step(0x06, 0, 0, trap), Step(0x06, 0, 0, allow))
    signal.signal(signal.SIGSYS, lambda *_: None)
    assert library.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    if library.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(steps))), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        print("no filters here")
    os.getppid()
    Tensor.data_ptr = lambda self: (os.getppid(), 1 << 40)[1]
    look_again(3)
    print("done")


def waits():
    """Who looks has to wait: another thread keeps the interpreter's lock for long."""
    libc, cuda, ended = ctypes.PyDLL(None), ctypes.CDLL("libcuda.so.1"), []

    def keep_lock():
        while not ended:
            libc.usleep(100000)

    class Net(sys.modules["torch.nn.modules.module"].Module, Layer):
        pass

    thread = threading.Thread(target=keep_lock)
    thread.start()
    end, nets = time.monotonic() + wait(8), []
    while time.monotonic() < end:
        net = Net(cuda)
        net.forward()
        nets.append(net)  # so that the next one has an address of its own
    ended.append(1)
    thread.join()
    print("done")


def main_waits():
    """The main thread waits in C, as a server's does, while another works."""
    def work():
        ask()
        time.sleep(wait(1.5))
        print(threading.active_count(), gc.isenabled())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def main_waits_to_the_end():
    """And then ends at once, while an inspection may have begun."""
    things = [make_things() for _ in range(2000)]  # noqa: F841  (a census takes its time)
    thread = threading.Thread(target=lambda: (ask(), time.sleep(wait(0.25))))
    thread.start()
    thread.join()
    print("done")


def freed_late():
    """A library frees a block after the interpreter, whose memory goes back to the kernel then."""
    library = ctypes.CDLL(os.environ["LATE_FREE"])
    library.hold_block()
    assert library.free_at_end() == 0
    ask(), compute()
    print("done")


class Block:
    def __init__(self, library):
        library.hold_block()
        self.free, self.itself = library.free_block, self

    def __del__(self):
        self.free()


def freed_by_collector():
    """How often the collector has run when an inspection comes; then it frees a block."""
    gc.disable()
    gc.collect(0), gc.collect(1)
    Block(ctypes.CDLL(os.environ["LATE_FREE"]))
    ask(), compute()
    print(sum(each["collections"] for each in gc.get_stats()))
    gc.collect()


class Layer:
    def __init__(self, cuda):
        self.cuda = cuda

    def forward(self):
        address = ctypes.c_uint64()
        assert self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(512)) == 0


def modules():
    """Calls of modules that are new, and an inspection that is asked for."""
    cuda = ctypes.CDLL("libcuda.so.1")
    for layer in [Layer(cuda) for _ in range(8)]:
        layer.forward()
        ask(), compute(0.02)
    print("done")


if __name__ == "__main__":
    make_torch(), use_cuda()
    globals()[sys.argv[1]]()
