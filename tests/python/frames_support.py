"""Loads the test library and compares its walk with sys._getframe. Runs on every Python from 3.8 on."""
import ctypes
import os
import sys
import threading
import traceback

LIBRARY = os.environ["VT_FRAMES_LIBRARY"]
CAPACITY = 512
MINOR = sys.version_info[1]


class Told(ctypes.Structure):
    _fields_ = [("hash", ctypes.c_uint64)] + [
        (name, ctypes.c_uint32) for name in ("truncated", "unreadable", "frames", "failed")]


def load(kind):
    library = kind(LIBRARY)
    library.test_walk.restype = ctypes.c_size_t
    library.test_walk_hash.restype = ctypes.c_size_t
    library.test_walk_ns.restype = ctypes.c_double
    library.test_walk_cold_ns.restype = ctypes.c_double
    library.test_describe.restype = ctypes.c_size_t
    library.test_hex_version.restype = ctypes.c_uint32
    return library


WITH_GIL = load(ctypes.PyDLL)
WITHOUT_GIL = load(ctypes.CDLL)
LIBRARIES = (WITH_GIL, WITHOUT_GIL)
buffers = threading.local()


class Frame:
    def __init__(self, record):
        file, name, line, offset, self_address = record.split("\x1f")
        self.key = (file, name, int(line), int(offset))
        self.name = name
        self.self_address = int(self_address)


def walk(library=WITHOUT_GIL, capacity=CAPACITY):
    """What the product sees from here: this function's own frame is the first."""
    told = Told()
    if not hasattr(buffers, "text"):
        buffers.text = ctypes.create_string_buffer(1 << 19)
    text = buffers.text
    used = library.test_walk(text, ctypes.c_size_t(len(text)), ctypes.c_size_t(capacity), ctypes.byref(told))
    records = ctypes.string_at(text, used).decode("utf-8").split("\x1e")[:-1]
    return told, [Frame(record) for record in records]


def walk_hash(library=WITHOUT_GIL):
    number = ctypes.c_uint64()
    library.test_walk_hash(ctypes.c_size_t(CAPACITY), ctypes.byref(number))
    return number.value


def code_name(code):
    return code.co_qualname if MINOR >= 11 else code.co_name


def printable(text):
    return "".join("\ufffd" if 0xd800 <= ord(c) < 0xe000 else c for c in text)


def true_chain(frame):
    chain = []
    while frame is not None:
        code = frame.f_code
        line = frame.f_lineno
        chain.append((printable(code.co_filename), printable(code_name(code)), -1 if line is None else line,
                      frame.f_lasti))
        frame = frame.f_back
    return chain


observed = 0


def observe(value=None, *ignored):
    """Call it anywhere: compares the walk from here with what Python says, and hands `value` on."""
    global observed
    observed += 1
    for library in LIBRARIES:
        told, frames = walk(library)
        expected = true_chain(sys._getframe(1))
        actual = [frame.key for frame in frames[2:]]
        assert told.failed == 0 and told.unreadable == 0, (told.failed, told.unreadable)
        if len(expected) + 2 > CAPACITY:
            assert told.truncated and told.frames == CAPACITY, (told.truncated, told.frames)
            expected = expected[:CAPACITY - 2]
        else:
            assert not told.truncated
        for index, (seen, true) in enumerate(zip(actual, expected)):
            assert seen == true, "frame %d: %r is %r" % (index, seen, true)
        assert len(actual) == len(expected), (len(actual), len(expected))
    return value


def run_tests(namespace):
    passed = failed = 0
    for name, test in sorted(namespace.items()):
        if not name.startswith("test_") or not callable(test):
            continue
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print("FAILED %s" % name)
            traceback.print_exc(file=sys.stdout)
    return passed, failed


def finish(title, passed, failed):
    print("%-28s %-22s %d passed, %d failed" % (
        "%d.%d.%d %s" % (sys.version_info[:3] + (sys.executable,)), title, passed, failed))
    sys.exit(1 if failed else 0)
