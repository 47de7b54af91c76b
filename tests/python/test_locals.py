"""Local variables read raw, against what each function itself knows of them."""
import ctypes
import sys

import frames_support as support
from frames_support import MINOR, code_name


def visit(frames=100):
    """[(function, name, value)] of the callers, innermost first; without this function's own."""
    told = []
    support.WITH_GIL.test_locals(ctypes.c_size_t(frames), ctypes.py_object(told))
    triples = list(zip(told[::3], told[1::3], told[2::3]))
    told.clear()  # this function's own variable is among them
    return [triple for triple in triples if triple[0] not in ("visit", "load")]


def expected(frame):
    """Of one frame: its variables but for those that are free in it before 3.11, and the interpreter's own."""
    names = frame.f_code.co_varnames + frame.f_code.co_cellvars + (frame.f_code.co_freevars if MINOR >= 11 else ())
    return {(code_name(frame.f_code), name): id(value) for name, value in frame.f_locals.items() if name in names}


def agree(frame, seen):
    wanted = expected(frame)
    mine = {(function, name): id(value) for function, name, value in seen if function == code_name(frame.f_code)}
    assert mine == wanted, (mine, wanted)


def test_arguments_and_locals():
    def plain(first, *rest, key=None, **more):
        before = [1, 2]
        gone = "gone"
        del gone
        for index in range(3):
            pass
        seen = None
        seen = visit(3)
        told = {name: value for function, name, value in seen if function.endswith("plain")}
        assert told["first"] == 1 and told["rest"] == (2, 3) and told["key"] == "k" and told["more"] == {"x": 9}
        assert told["before"] is before and told["index"] == 2 and "gone" not in told
        assert "unset" not in told
        if first is None:
            unset = 1
            return unset
    plain(1, 2, 3, key="k", x=9)


def test_cells():
    shared = object()
    argument_cell = None

    def outer(captured, later):
        local_cell = object()

        def inner():
            here = captured, local_cell, shared
            seen = visit()
            told = {(function.rpartition(".")[2], name): value for function, name, value in seen}
            assert told["outer", "captured"] is captured and told["outer", "local_cell"] is local_cell
            assert told["inner", "here"] is here and told["test_cells", "shared"] is shared
            assert ("inner", "shared") in told if MINOR >= 11 else True
            assert told["test_cells", "argument_cell"] is None
            assert ("outer", "empty") not in told

        inner()
        empty = captured
        return lambda: (empty, later, argument_cell)
    outer(object(), 2)


def test_frames_agree():
    def level(depth, data):
        if depth:
            kept = {"depth": depth}
            result = level(depth - 1, [data, kept])
            return result
        return sys._getframe(), visit()

    def look():
        frame, seen = level(0, None)
        return frame, seen
    look()

    def check():
        seen = visit(2)
        value = 1.5  # noqa: F841  (made after the visit: not seen)
        mine = {name for function, name, _ in seen if function.endswith("check")}
        assert mine <= {"check"} | set(), mine
    check()


def test_generators():
    def numbers(limit):
        thing = object()
        for number in range(limit):
            yield number, thing, visit()
    for number, thing, seen in numbers(3):
        told = {name: value for function, name, value in seen if function.endswith("numbers")}
        assert told["thing"] is thing and told["number"] == number and told["limit"] == 3


def test_comprehension():
    outside = object()
    seen = [visit() for _ in range(2)][1]
    assert any(name == "outside" and value is outside for _, name, value in seen)


def test_nothing_is_kept():
    class Thing:
        pass

    def hold():
        thing = Thing()
        before = sys.getrefcount(thing)
        visit()
        assert sys.getrefcount(thing) == before
        return 1
    hold()


def test_bound():
    def deep(n):
        mark = n
        return deep(n - 1) if n else (visit(5), mark)
    seen, _ = deep(50)
    assert {value for function, name, value in seen if name == "mark"} <= {0, 1, 2, 3, 4}


if __name__ == "__main__":
    support.walk()
    support.finish("locals", *support.run_tests(globals()))
