"""The walk against sys._getframe, in every situation that lays frames out differently."""
import asyncio
import contextlib
import ctypes
import functools
import gc
import random
import sys
import threading
import weakref

import frames_support as support
from frames_support import MINOR, observe, walk, walk_hash


def test_nested_calls():
    def a():
        def b():
            def c():
                observe()
            c()
        b()
    a()


def test_innermost_line():
    line = walk()[1][1].key[2]; expected = sys._getframe().f_lineno
    assert line == expected, (line, expected)


def test_generator():
    def numbers():
        for i in range(3):
            yield observe(i)
        observe()
    assert list(numbers()) == [0, 1, 2]
    generator = numbers()
    next(generator)
    next(generator)
    observe()
    generator.close()


def test_generator_send_throw_close():
    def generator():
        try:
            observe()
            yield 1
        except KeyError:
            observe()
            yield 2
        finally:
            observe()
    g = generator()
    next(g)
    g.throw(KeyError())
    g.close()


def test_yield_from():
    def inner():
        yield observe(1)
        yield observe(2)
        return 3

    def middle():
        result = yield from inner()
        yield observe(result)

    def outer():
        yield from middle()
    assert list(outer()) == [1, 2, 3]


def test_generator_expression_and_comprehensions():
    assert sum(observe(i) for i in range(3)) == 3
    assert [observe(i) for i in range(3) if observe(True)] == [0, 1, 2]
    assert {observe(i): observe(i) for i in range(2)} == {0: 0, 1: 1}
    assert {observe(i) for i in range(2)} == {0, 1}
    assert [[observe(i + j) for i in range(2)] for j in range(2)] == [[0, 1], [1, 2]]


def test_decorators():
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            observe()
            return function(*args, **kwargs)
        return wrapper

    @decorator
    @functools.lru_cache(None)
    @decorator
    def decorated(x):
        return observe(x)
    assert decorated(3) == 3

    @observe
    @observe
    def seen():
        pass


def test_exceptions():
    def thrower():
        raise ValueError
    try:
        thrower()
    except ValueError as error:
        observe()
        assert error.__traceback__ is not None
        try:
            raise KeyError from error
        except KeyError:
            observe()
        finally:
            observe()
    else:
        assert False
    finally:
        observe()

    def reraises():
        try:
            1 / 0
        except ZeroDivisionError:
            observe()
            raise
        finally:
            observe()
    try:
        reraises()
    except ZeroDivisionError:
        observe()
    for i in range(3):
        try:
            if i == 1:
                continue
            observe()
        finally:
            observe()


def test_callbacks_from_c():
    assert sorted([3, 1, 2], key=observe) == [1, 2, 3]
    assert sorted([3, 1, 2], key=lambda x: observe(-x)) == [3, 2, 1]
    assert list(map(observe, [1, 2])) == [1, 2]
    assert list(filter(lambda x: observe(x), [0, 1])) == [1]
    assert functools.partial(lambda x, y: observe(x + y), 1)(2) == 3
    assert functools.reduce(lambda x, y: observe(x + y), [1, 2, 3]) == 6
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: observe(x))
    assert callback(7) == 7

    def nested(n):
        return list(map(nested, [n - 1])) if n else observe()
    nested(5)


def test_class_body():
    class Outer:
        observe()

        class Inner:
            value = observe(1)

            def method(self):
                return observe(self.value)
        inner = Inner().method()

    class Meta(type):
        def __new__(mcs, name, bases, namespace):
            observe()
            return super().__new__(mcs, name, bases, namespace)

        def __call__(cls):
            return observe(super().__call__())

    class Made(metaclass=Meta):
        def __init_subclass__(cls):
            observe()

        def __set_name__(self, owner, name):
            observe()

        def __init__(self):
            observe()

    class Sub(Made):
        pass
    Sub()
    assert Outer.inner == 1


def test_attributes():
    class Thing:
        @property
        def prop(self):
            return observe(1)

        def __getattr__(self, name):
            return observe(name)

        def __getitem__(self, key):
            return observe(key)

        def __eq__(self, other):
            return observe(True)

        def __len__(self):
            return observe(3)

        def __iter__(self):
            return iter([observe(1)])

        @classmethod
        def made(cls):
            return observe(cls())

        @staticmethod
        def loose():
            return observe()

        def __contains__(self, item):
            return observe(True)

        def __add__(self, other):
            return observe(self)

        def __repr__(self):
            return observe("Thing")
    thing = Thing.made()
    assert (thing.prop, thing.other, thing[5], len(thing), list(thing)) == (1, "other", 5, 3, [1])
    assert thing == 1 and 3 in thing and (thing + 1) is thing and repr(thing) == "Thing" and "%r" % thing
    Thing.loose()
    thing.loose()


def test_special_method_frames():
    # From 3.11 on the interpreter runs these without entering C; __init__ has a shim frame from 3.12 on.
    class Node:
        def __init__(self, depth):
            self.child = Node(depth - 1) if depth else observe()

    for _ in range(40):
        Node(3)

    class Descriptor:
        def __get__(self, instance, owner):
            return observe(4)

    class Holder:
        value = Descriptor()
        __slots__ = ()

        def __getattribute__(self, name):
            observe()
            return object.__getattribute__(self, name)
    for _ in range(40):
        assert Holder().value == 4


def test_lambdas_and_closures():
    outer = (lambda x: (lambda y: (lambda: observe(x + y))))
    assert outer(1)(2)() == 3

    def many_cells(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p):
        x = 1

        def inner():
            return observe(a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + x)
        return inner() + observe(0)
    assert many_cells(*range(16)) == 121


def test_multi_line_calls():
    value = observe(
        observe(
            1
        ) + (
            observe(2)
        ),
        *[observe(3),
          observe(4)]
    )
    assert value == 3
    data = {
        "a": observe(1),
        "b": [
            observe(2),
            observe(3)
        ],
    }
    assert (data
            ["b"]
            [observe(0)]) == 2
    text = f"{observe(1)} {observe(2)!r:>{observe(5)}}"
    assert text.split() == ["1", "2"]
    assert (observe(1) and
            observe(2) and not
            observe(0))


def test_with():
    class Manager:
        def __enter__(self):
            return observe(self)

        def __exit__(self, *args):
            return observe(True)

    @contextlib.contextmanager
    def manager():
        observe()
        try:
            yield observe(1)
        finally:
            observe()
    with Manager() as m, manager() as n:
        observe()
        assert n == 1
    with Manager():
        raise KeyError
    try:
        with manager():
            raise KeyError
    except KeyError:
        observe()


def test_async():
    class Manager:
        async def __aenter__(self):
            await asyncio.sleep(0)
            return observe()

        async def __aexit__(self, *args):
            observe()

    async def numbers():
        for i in range(2):
            await asyncio.sleep(0)
            yield observe(i)

    async def leaf(x):
        observe()
        await asyncio.sleep(0)
        return observe(x)

    async def main():
        async with Manager():
            async for _ in numbers():
                observe()
        assert [x async for x in numbers()] == [0, 1]
        assert [observe(await leaf(i)) for i in range(2)] == [0, 1]
        await asyncio.gather(leaf(1), leaf(2))
        observe()
        try:
            await asyncio.wait_for(asyncio.sleep(30), 0.001)
        except asyncio.TimeoutError:
            observe()
    asyncio.run(main())


def test_exec_and_eval():
    scope = {"observe": observe}
    exec("observe()\n\n\nobserve(\n1)\nfor i in range(2):\n  observe()", scope)
    assert eval("observe(\n\n3)", scope) == 3
    exec(compile("def f():\n" + "\n" * 700 + "  return observe(5)\nassert f() == 5", "<made>", "exec"), scope)
    exec("exec('observe()')", scope)
    observe(type("Made", (), {"method": lambda self: observe(1)})().method())


def test_recursion():
    def recurse(n):
        return recurse(n - 1) if n else observe()
    recurse(400)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    try:
        recurse(500)
        recurse(1000)  # more than the capacity: told as truncated
        told, frames = walk(capacity=3)
        assert told.truncated and len(frames) == 3
        told, frames = walk(capacity=0)
        assert told.truncated and not frames
        told, frames = walk(capacity=len(true_frames()))
        assert not told.truncated
    finally:
        sys.setrecursionlimit(limit)


def true_frames():
    return support.true_chain(sys._getframe())


def test_long_function():
    lines = ["def long(x):"]
    for i in range(1500):
        if i % 97 == 0:
            lines.append("  observe()")
        elif i % 31 == 0:
            lines.append("  x = (x +\n" + "\n" * (i // 4) + "   1)")
        else:
            lines.append("  x = x + %d" % i)
    lines.append("  return observe(x)")
    scope = {"observe": observe}
    exec("\n".join(lines), scope)
    scope["long"](0)


def test_negative_line_deltas():
    def loop(n):
        total = 0
        while (
            total
            <
            n
        ):
            for i in range(
                2
            ):
                total += (
                    observe(i)
                    +
                    observe(1)
                )
        return [
            observe(x)
            for x in
            range(
                observe(2)
            )
        ]
    assert loop(4) == [0, 1]


def test_threads():
    errors = []

    def work(seed):
        choose = random.Random(seed)

        def recurse(n):
            if n:
                return [recurse(n - 1) for _ in range(1)][0]
            return observe()
        try:
            for _ in range(20):
                recurse(choose.randrange(30))
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_threads_walk_while_others_run():
    stop = []
    hashes = {}

    def churn():
        while not stop:
            exec("def f(x):\n  return [x for x in range(9)]\nf(1)", {})
            gc.collect(0)

    def probe(k):
        def again():
            return walk_hash()
        seen = set()
        for _ in range(400):
            seen.add(again())
        hashes[k] = seen
    churner = threading.Thread(target=churn)
    churner.start()
    threads = [threading.Thread(target=probe, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.append(True)
    churner.join()
    for seen in hashes.values():
        assert len(seen) == 1, len(seen)


def test_finalizers():
    class Dies:
        def __init__(self, extra=None):
            self.extra = extra

        def __del__(self):
            observe()

    def holds(a, b):
        cell = lambda: (a, b)
        return cell is not None

    assert holds(Dies(), Dies())
    thing = Dies()
    del thing
    cycle = Dies()
    cycle.extra = cycle
    del cycle
    gc.collect()
    weak = set()
    reference = weakref.ref(Dies(), lambda _: weak.add(observe(1)))
    assert reference() is None and weak == {1}

    def generator(x):
        yield x
        yield x
    suspended = generator(Dies())
    next(suspended)
    del suspended
    gc.collect()


def test_collector_callbacks_everywhere():
    seen = []

    def callback(phase, info):
        observe()
        seen.append(phase)

    class Cell:
        pass

    def makes(a, b, c):
        x = [Cell() for _ in range(50)]
        inner = lambda: (a, b, c, x)
        return (i for i in inner())
    old = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1)
    try:
        for _ in range(30):
            list(makes(1, 2, 3))

            async def never():
                return makes
            never().close()
    finally:
        gc.set_threshold(*old)
        gc.callbacks.remove(callback)
    assert seen


def test_tracing_and_profiling():
    count = [0]

    def tracer(frame, event, arg):
        count[0] += 1
        observe()
        return tracer

    def traced(n):
        total = 0
        for i in range(n):
            total += i
        try:
            raise KeyError
        except KeyError:
            total += sum(x for x in range(2))
        return total
    sys.settrace(tracer)
    try:
        traced(2)
    finally:
        sys.settrace(None)
    sys.setprofile(lambda *args: observe())
    try:
        traced(2)
        sorted([2, 1], key=lambda x: x)
    finally:
        sys.setprofile(None)
    traced(2)
    assert count[0] > 10


def test_monitoring():
    if MINOR < 12:
        return
    monitoring = sys.monitoring
    events = monitoring.events
    seen = [0]

    def look(*args):
        seen[0] += 1
        observe()

    def watched(n):
        total = 0
        for i in range(n):
            total += sum(x for x in range(i))
        return [x for x in range(total)]
    monitoring.use_tool_id(3, "test")
    chosen = events.LINE | events.PY_START | events.PY_RETURN | events.CALL | events.PY_YIELD | events.PY_RESUME
    try:
        for event in (events.LINE, events.PY_START, events.PY_RETURN, events.CALL, events.PY_YIELD,
                      events.PY_RESUME):
            monitoring.register_callback(3, event, look)
        monitoring.set_local_events(3, watched.__code__, chosen & ~events.CALL)
        watched(3)
        monitoring.set_local_events(3, watched.__code__, chosen)
        watched(3)
    finally:
        monitoring.set_local_events(3, watched.__code__, 0)
        monitoring.free_tool_id(3)
    watched(3)
    assert seen[0] > 10


def test_warm_code():
    # Specialised and instrumented instructions, and calls that stay in one C frame.
    def add(a, b):
        return observe(a) + b if a == 60 else a + b

    def loop():
        total = 0
        for i in range(120):
            total = add(i, total * 0)
        return total
    loop()


def test_greenlet_like_frames():
    # A frame object that outlives its call, a traceback's frames, inspect of a suspended generator.
    def keeps():
        return sys._getframe()
    frame = keeps()
    observe()
    assert frame.f_code.co_name == "keeps"
    try:
        keeps().nothing
    except AttributeError as error:
        kept = error.__traceback__.tb_frame
        observe()
        assert kept.f_code.co_name == sys._getframe().f_code.co_name


def test_names_that_are_not_ascii():
    for name in ("caf\u00e9", "\u0444\u0443\u043d\u043a\u0446\u0438\u044f", "\u6587\u4ef6", "\U0001d4d0x"):
        scope = {"observe": observe}
        source = "def %s():\n  return observe(1)\nassert %s() == 1" % (name, name)
        exec(compile(source, "/tmp/%s/\U0001f600.py" % name, "exec"), scope)
        exec(compile(source, "/tmp/%s.py" % name, "exec"), scope)
    code = compile("observe()", "/tmp/x\udcff.py", "exec")
    exec(code, {"observe": observe})
    code = compile("observe()", "", "exec").replace(co_name="", co_filename="")
    exec(code, {"observe": observe})


def test_version_is_told():
    assert support.WITH_GIL.test_hex_version() == sys.hexversion or MINOR < 11
    assert support.WITH_GIL.test_hex_version() & ~0xf == sys.hexversion & ~0xf
    assert support.WITH_GIL.test_unsupported_minor() == 0
    assert support.WITH_GIL.test_loaded() == 1


if __name__ == "__main__":
    walk()
    support.finish("frames", *support.run_tests(globals()))
