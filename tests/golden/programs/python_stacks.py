"""Allocates at the bottom of many kinds of Python frames, and prints for each allocation what Python itself says
of the stack: one JSON line, [address, [[file, line, function], …]], innermost first."""
import ctypes
import functools
import json
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
lock = threading.Lock()


def allocate():
    address = ctypes.c_uint64()
    frames, frame = [], sys._getframe()
    result = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096)); line = frame.f_lineno  # noqa: E702
    assert result == 0
    while frame is not None:
        frames.append([frame.f_code.co_filename, line or frame.f_lineno, frame.f_code.co_name])
        frame, line = frame.f_back, None
    with lock:
        print(json.dumps([address.value, frames]), flush=True)
    return 0


def nested(depth):
    return nested(depth - 1) if depth else allocate()


def generator():
    yield allocate()
    yield from (allocate() for _ in range(2))


def decorator(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper


@decorator
def decorated(_=None):
    return allocate()


def in_handler():
    try:
        raise ValueError
    except ValueError:
        try:
            allocate()
        finally:
            allocate()


class Thing:
    made = allocate if False else None

    @property
    def value(self):
        return allocate()

    def __getattr__(self, name):
        return allocate()

    def __enter__(self):
        allocate()
        return self

    def __exit__(self, *details):
        allocate()


async def coroutine():
    return allocate()


async def outer_coroutine():
    return await coroutine()


def main():
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    nested(0)
    nested(30)
    sys.setrecursionlimit(3000)
    nested(500)
    list(generator())
    [allocate() for _ in range(2)]
    {allocate(): allocate() for _ in range(1)}
    decorated()
    in_handler()
    with Thing() as thing:
        thing.value
        thing.missing
    functools.partial(decorated, 1)()
    sorted([3, 1, 2], key=decorated)
    list(map(decorated, [1, 2]))
    (lambda: allocate())()
    exec("def made_by_exec():\n    return allocate()\nmade_by_exec()", {"allocate": allocate})
    try:
        outer_coroutine().send(None)
    except StopIteration:
        pass

    def in_thread():
        assert cuda.cuCtxSetCurrent(context) == 0
        nested(5)
        decorated()

    threads = [threading.Thread(target=in_thread) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    allocate(
    )


main()
