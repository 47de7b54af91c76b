"""What a walk says of code objects and of `self`: descriptions, hashes, addresses that are used again."""
import ctypes
import gc
import types
import weakref

import frames_support as support
from frames_support import MINOR, walk, walk_hash

# PyCode_Type.tp_dealloc: after a type's name and sizes, which come after the header of an object with a size.
CODE_DIES = ctypes.c_void_p.from_address(id(types.CodeType) + object.__basicsize__ + 8 + 3 * 8)
INTERPRETERS_OWN = CODE_DIES.value  # nothing was walked yet


def describe(code, room):
    text = ctypes.create_string_buffer(1 << 16)
    used = support.WITH_GIL.test_describe(ctypes.c_void_p(code), ctypes.c_size_t(room), text,
                                          ctypes.c_size_t(len(text)))
    return text.raw[:used].decode("utf-8")


def test_describe():
    code = compile("x = 1", "/\u6587/file.py", "exec")
    assert describe(id(code), 1024) == "/\u6587/file.py\x1f<module>"
    assert describe(id(code), 4) == "/\u6587\x1f<module>"
    assert describe(id(code), 3) == "/\x1f<module>"
    assert describe(id(code), 0) == "\x1f<module>"
    for wrong in (0, 1, 3, 8, 4096, 2**64 - 8, id(code) + 1, id(code) + 8, id("text"), id(None), id(gc)):
        assert describe(wrong, 1024) == ""


class Probe:
    """Walks without a Python frame of its own, so that two calls differ only in what calls it."""

    def __init__(self):
        self.number = ctypes.c_uint64()
        self.reference = ctypes.byref(self.number)
        self.capacity = ctypes.c_size_t(512)
        self.function = support.WITHOUT_GIL.test_walk_hash


probe = Probe()


def test_hash_tells_frames_apart():
    def at_two_places(first):
        if first:
            return walk_hash()
        return walk_hash()

    def same(n):
        return [walk_hash() for _ in range(n)]
    one = [at_two_places(x) for x in (True, False)]
    assert one[0] != one[1]
    assert len(set(same(50))) == 1

    def deeper(n):
        return [walk_hash()] + (deeper(n - 1) if n else [])
    many = deeper(100)
    assert len(set(many)) == len(many)


def run_and_forget(source, file):
    scope = {"function": probe.function, "capacity": probe.capacity, "reference": probe.reference}
    code = compile(source, file, "exec")
    exec(code, scope)
    address = id(scope["code"]) if "code" in scope else id(scope["f"].__code__)
    return probe.number.value, address


def check_reuse(variants):
    """Each variant runs at an address that others had before it, and has its own hash each time."""
    hashes = {}
    addresses = {}
    for _ in range(40):
        for variant in variants:
            number, address = run_and_forget(*variant)
            hashes.setdefault(number, set()).add(variant)
            addresses.setdefault(address, set()).add(variant)
    for shared in hashes.values():
        assert len(shared) == 1, ("one hash", shared)
    reused = sum(1 for users in addresses.values() if len(users) > 1)
    if reused == 0:  # a checking allocator; fake_interpreter.c changes code objects in place anyway
        print("note: no address was used again, so this test showed nothing")


CALL = "function(capacity, reference)"


def test_reused_address_other_name():
    check_reuse([("def f%d(): %s\nf%d()\nf = f%d" % (i, CALL, i, i), "<gen>") for i in range(10, 30)])


def test_reused_address_other_line():
    check_reuse([("\n" * i + "def f(): %s\nf()" % CALL, "<gen>") for i in range(20)])


def test_reused_address_other_file():
    check_reuse([("def f(): %s\nf()" % CALL, "<generated %d>" % i) for i in range(10, 40)])


def test_reused_address_other_long_file():
    check_reuse([("def f(): %s\nf()" % CALL, "/tmp/%d/generated/by/something.py" % i) for i in range(10, 40)])


def test_reused_address_other_class():
    if MINOR < 11:
        return  # no qualified names there: nothing tells them apart, and nothing that is told differs
    check_reuse([("class K%d:\n  def forward(self): %s\nK%d().forward()\nf = K%d.forward" % (i, CALL, i, i), "<gen>")
                 for i in range(10, 30)])


def test_reused_address_other_line_table():
    check_reuse([("def f():\n  x = 1\n%s  %s\nf()" % ("\n" * i, CALL), "<gen>") for i in range(20)])


def test_dead_code_is_freed():
    assert CODE_DIES.value != INTERPRETERS_OWN, "deaths are not counted"
    code = compile("x = 1", "<gen>", "exec")
    dead = weakref.ref(code)
    del code
    gc.collect()
    assert dead() is None


def test_reused_address_at_once():
    """The same frame, with the code of the walk before gone: all that differs is what is in the code object."""
    numbers, held, address = [], [], None
    scope = {"function": probe.function, "capacity": probe.capacity, "reference": probe.reference}
    for line in range(200):
        code = compile("\n" * line + CALL, "<gen>", "exec")
        if address in (None, id(code)):
            exec(code, scope)
            numbers.append(probe.number.value)
            address = id(code)
        else:
            held.append(code)
        del code
    assert len(set(numbers)) == len(numbers)
    if len(numbers) < 2:
        print("note: no address was used again at once, so this test showed nothing")


def test_reused_address_another_tool_frees_code():
    ours = CODE_DIES.value
    CODE_DIES.value = INTERPRETERS_OWN
    walk_hash()  # tells that deaths are not counted any more
    try:
        test_reused_address_at_once()
    finally:
        CODE_DIES.value = ours


def test_self_of_modules():
    source = """
class Module:
    def _wrapped_call_impl(self, *args):
        return self._call_impl(*args)
    def _call_impl(self, *args):
        def inner():
            result = self.forward(*args)
            return result
        return inner()
    __call__ = _wrapped_call_impl
    def helper(self, x):
        return probe(x)
class Layer(Module):
    def forward(self, x):
        return self.helper(x)
class Cells(Module):
    def forward(self, a, b=2, c=3):
        zzz = lambda: (self, a, b, c)
        return Layer()(a) if False else self.helper(a)
class Deleted(Module):
    def forward(self, x):
        helper = self.helper
        del self
        return helper(x)
class Odd(Module):
    def forward(this, x):
        return this.helper(x)
def forward(self):
    return probe(1)
class Caller:
    def __call__(self):
        return probe(1)
"""
    scope = {"probe": lambda x: walk()[1]}
    exec(compile(source, "/x/torch/nn/modules/module.py", "exec"), scope)

    def selves(thing, *args):
        frames = thing(*args)
        return [(f.name.split(".")[-1], f.self_address) for f in frames
                if f.key[0].endswith("module.py") or f.self_address]
    for kind in ("Layer", "Cells"):
        made = [scope[kind]() for _ in range(3)]
        for _ in range(3):
            for thing in made:
                assert selves(thing, 1) == [
                    ("helper", 0), ("forward", id(thing)), ("inner", 0), ("_call_impl", id(thing)),
                    ("_wrapped_call_impl", id(thing))], (kind, selves(thing, 1), hex(id(thing)))
    deleted = scope["Deleted"]()
    assert selves(deleted, 1)[1] == ("forward", 0)
    odd = scope["Odd"]()
    assert selves(odd, 1)[1] == ("forward", 0)
    assert selves(scope["forward"], probe) == [("forward", id(probe))]
    caller = scope["Caller"]()
    # any class has one, and a fresh object each time would make a fresh stack each time
    assert selves(caller) == [("__call__", 0)]


def test_self_of_optimizers():
    source = """
class Adam:
    def step(self, closure=None):
        return self._step()
    def _step(self):
        return probe()
    @staticmethod
    def stepless(x):
        return probe()
def step(x):
    return probe()
"""
    for file, wanted in (("/x/torch/optim/adam.py", True), ("/\u6587/bitsandbytes/optim/adamw.py", True),
                         ("/x/simulation.py", False)):
        scope = {"probe": lambda: walk()[1]}
        exec(compile(source, file, "exec"), scope)
        adam = scope["Adam"]()
        frames = [f for f in adam.step() if f.key[0] == file]
        assert [f.self_address for f in frames] == [0, id(adam) if wanted else 0]
        assert all(f.self_address == 0 for f in scope["step"](adam))


def test_hash_tells_selves_apart():
    class Layer:
        def forward(self):
            return walk_hash()
    layers = [Layer() for _ in range(100)]
    first = [layer.forward() for layer in layers]
    assert len(set(first)) == 100


def test_many_code_objects():
    # More than the table of selves has places: entries are pushed out and decided again.
    made = []
    for i in range(6000):
        scope = {"walk": walk}
        exec("class K%d:\n  def forward(self):\n    return walk()[1]" % i, scope)
        made.append(scope["K%d" % i]())
    for thing in made[::97] + made[:20]:
        assert thing.forward()[1].self_address == id(thing)


if __name__ == "__main__":
    walk()
    support.finish("identity", *support.run_tests(globals()))
