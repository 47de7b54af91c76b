"""The line decoder against the interpreter's own, at every instruction of several modules of the library."""
import ctypes
import dis
import importlib.util
import random
import types

import frames_support as support
from frames_support import MINOR

MODULES = ("argparse ast asyncio.base_events contextlib dataclasses enum functools inspect json.decoder logging "
           "pickle random re socket subprocess tarfile tempfile threading typing unittest.mock zipfile "
           "_pydecimal collections traceback").split()


def decode(code, table=None, minor=MINOR, count=None):
    """The line at each code unit, by our decoder."""
    if table is None:
        table = code.co_lnotab if MINOR < 10 else code.co_linetable
    count = len(code.co_code) // 2 if count is None else count
    lines = (ctypes.c_int32 * max(count, 1))()
    support.WITH_GIL.test_lines(ctypes.c_int(minor), table, ctypes.c_size_t(len(table)),
                                ctypes.c_int32(code.co_firstlineno), ctypes.c_int32(count), lines)
    return list(lines[:count])


def true_lines(code):
    units = len(code.co_code) // 2
    lines = [-1] * units
    if MINOR >= 10:
        for start, end, line in code.co_lines():
            for unit in range(start // 2, min(end // 2, units)):
                lines[unit] = -1 if line is None else line
        return lines
    starts = list(dis.findlinestarts(code)) + [(units * 2, None)]
    for (start, line), (end, _) in zip(starts, starts[1:]):
        for unit in range(start // 2, end // 2):
            lines[unit] = line
    return lines


def codes_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def modules():
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        with open(spec.origin, encoding="utf-8") as file:
            yield name, compile(file.read(), spec.origin, "exec")


def test_library():
    codes = units = 0
    for name, module in modules():
        for code in codes_of(module):
            seen, true = decode(code), true_lines(code)
            assert seen == true, (name, code, [p for p in enumerate(zip(seen, true)) if p[1][0] != p[1][1]][:5])
            codes += 1
            units += len(true)
    assert codes > 1000 and units > 50000, (codes, units)


def test_positions():
    if MINOR < 11:
        return
    for _, module in modules():
        for code in codes_of(module):
            positions = [-1 if line is None else line for line, _, _, _ in code.co_positions()]
            assert decode(code) == positions[:len(code.co_code) // 2], code


def test_large_deltas():
    for gap in (1, 126, 127, 128, 129, 255, 256, 1000, 70000):
        source = "def f(x):\n  a = 1\n" + "\n" * gap + "  b = (\n" + "\n" * gap + "x +\n" + "\n" * gap + " a)\n  return b"
        for code in codes_of(compile(source, "<gap>", "exec")):
            assert decode(code) == true_lines(code), gap
    body = "".join("  x = [x, x, x, x, %d]\n" % i for i in range(5000))
    for code in codes_of(compile("def f(x):\n" + body, "<long>", "exec")):
        assert decode(code) == true_lines(code)
    # One statement of more than 255 bytes, and a jump back over lines.
    source = "def f(x):\n  while (x\n    < " + " + ".join("(x,\n)" for _ in range(200)) + "):\n    x = 1\n"
    for code in codes_of(compile(source, "<wide>", "exec")):
        assert decode(code) == true_lines(code)


def test_without_lines():
    if MINOR < 10:
        return
    for code in codes_of(compile("def f():\n  with a as b:\n    for i in b:\n      try:\n        yield i\n"
                                 "      except E as e:\n        return\n", "<none>", "exec")):
        assert decode(code) == true_lines(code)


def test_before_and_beyond():
    code = compile("x = 1\ny = 2", "<module>", "exec")
    lines = decode(code, count=5000)
    assert lines[len(code.co_code) // 2:] == [2 if MINOR == 9 else -1] * (5000 - len(code.co_code) // 2)
    for minor in range(0, 20):
        empty = decode(code, b"", minor, 4)
        assert empty == [1 if minor == 9 else -1] * 4, (minor, empty)
        assert minor in range(9, 14) or decode(code, b"\x00\x01" * 8, minor, 4) == [-1] * 4


def test_garbage():
    choose = random.Random(7)
    code = compile("x = 1", "<module>", "exec")
    for minor in range(9, 14):
        for _ in range(3000):
            table = bytes(choose.choice((0, 1, 63, 64, 127, 128, 129, 0xf0, 0xe8, 0xff, choose.randrange(256)))
                          for _ in range(choose.randrange(60)))
            assert all(line >= -1 for line in decode(code, table, minor, 40))
        for byte in range(256):
            decode(code, bytes([byte]), minor, 40)
            decode(code, bytes([byte]) * 3000, minor, 4)
        for _ in range(300):
            real = bytearray(code.co_lnotab if MINOR < 10 else decode.__code__.co_linetable)
            if real:
                real[choose.randrange(len(real))] ^= 1 << choose.randrange(8)
            decode(code, bytes(real), minor, 40)


def test_damaged_tables_like_the_interpreter():
    """A table cut short gives the lines that it still holds."""
    for code in list(codes_of(decode.__code__)):
        table = code.co_lnotab if MINOR < 10 else code.co_linetable
        true = true_lines(code)
        for cut in range(len(table)):
            for seen, line in zip(decode(code, table[:cut]), true):
                assert seen in (line, -1) or MINOR == 9


if __name__ == "__main__":
    support.finish("lines", *support.run_tests(globals()))
