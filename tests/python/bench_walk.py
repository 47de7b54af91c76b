"""Time of a walk 23 frames deep: each frame another function, a third of them module calls with a self."""
import ctypes
import sys

import frames_support as support

DEPTH = 23
ROUNDS = 7
WALKS = 100000

SOURCE = """
class Layer{i}:
    def {name}(self, x=None):
        y = x
        return below()
""".format


def best(measure):
    return min(measure() for _ in range(ROUNDS))


def measure():
    frames = ctypes.c_uint32()
    library = support.WITHOUT_GIL
    capacity = ctypes.c_size_t(support.CAPACITY)
    hot = best(lambda: library.test_walk_ns(capacity, ctypes.c_uint(WALKS), ctypes.byref(frames)))
    cold = best(lambda: library.test_walk_cold_ns(capacity, ctypes.c_uint(20)))
    none = best(lambda: library.test_walk_ns(ctypes.c_size_t(0), ctypes.c_uint(WALKS), ctypes.byref(ctypes.c_uint32())))
    return hot, cold, none, frames.value


def build(depth):
    below = measure
    for i in range(depth):
        name = "forward" if i % 3 == 0 else "helper%d" % i
        scope = {"below": below}
        exec(compile(SOURCE(i=i, name=name), "/lib/python/site-packages/pack%d/modules.py" % (i // 4), "exec"), scope)
        below = getattr(scope["Layer%d" % i](), name)
    return below


def main():
    # A lambda, a generator, `best`, `measure`, `main` and <module> are frames too.
    hot, cold, none, frames = build(DEPTH - 6)()
    assert frames == DEPTH, frames
    print("%-28s %3.0f ns a walk of %d frames, %.1f ns a frame; %.0f ns from a cold cache; %.0f ns without frames" % (
        "%d.%d.%d" % sys.version_info[:3], hot, frames, hot / frames, cold, none))


main()
