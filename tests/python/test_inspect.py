"""What the scripts of an inspection find, with classes in the place of torch's: on every Python, without torch."""
import asyncio
import collections  # as torch does
import functools
import gc
import itertools
import os
import sys
import time
import types
import weakref

import frames_support as support

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "preload", "inspect")
CENSUS_TIME = 10**10  # ns


class Storage:
    def __init__(self, size):
        self.size = size

    def nbytes(self):
        return self.size


class Tensor:
    next_address = 1 << 40
    is_cuda, is_leaf = property(lambda self: True), property(lambda self: True)
    dtype = property(lambda self: "torch.float32")
    shape = property(lambda self: self.extents)
    grad = property(lambda self: self.__dict__.get("gradient"))
    grad_fn, requires_grad = property(lambda self: None), property(lambda self: False)

    def __init__(self, *shape):
        self.extents = shape
        self.address = Tensor.next_address
        Tensor.next_address += 1 << 20

    def numel(self):
        count = 1
        for extent in self.extents:
            count *= extent
        return count

    def element_size(self):
        return 4

    def storage_offset(self):
        return 0

    def untyped_storage(self):
        return Storage(Tensor.numel(self) * 4)

    def data_ptr(self):
        return self.address

    def get_device(self):
        return 0


class Parameter(Tensor):
    pass


class OwnTensor(Tensor):
    """Its class has its own idea of what it tells."""


class DistributedTensor(Tensor):
    """Its own part lies in a slot; it has no memory itself."""
    __slots__ = ("_local_tensor",)
    __torch_dispatch__ = None

    def untyped_storage(self):
        raise RuntimeError("no storage")


class Module:
    def __init__(self, **inside):
        self._parameters = {key: value for key, value in inside.items() if isinstance(value, Parameter)}
        self._buffers = {key: value for key, value in inside.items() if type(value) is Tensor}
        self._modules = {key: value for key, value in inside.items() if isinstance(value, Module)}


class Linear(Module):
    pass


class DistributedDataParallel(Module):
    pass


class Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters)}]
        self.state = {}


class DisableTorchFunction:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


def make_torch():
    torch = types.ModuleType("torch")
    torch.Tensor = Tensor
    torch.dtype, torch.device = type("dtype", (), {}), type("device", (), {})
    torch.nn = types.SimpleNamespace(Parameter=Parameter)
    torch._C = types.SimpleNamespace(DisableTorchFunction=DisableTorchFunction, TensorBase=Tensor)
    modules = types.ModuleType("torch.nn.modules.module")
    modules.Module = Module
    optimizers = types.ModuleType("torch.optim.optimizer")
    optimizers.Optimizer = Optimizer
    sys.modules.update({"torch": torch, "torch.nn.modules.module": modules, "torch.optim.optimizer": optimizers})


def find_unreached(wanted, seen, plain, generations, _, unreached, holders):
    """In the place of gc_lists.c."""
    objects = [thing for generation in range(generations) for thing in gc.get_objects(generation)]
    unreached += [thing for thing in objects if any(type(thing) is kind for kind in wanted) and id(thing) not in seen]
    objects.clear()  # they hold themselves
    return True


def find_holders(wanted, seen, plain, generations, _, unreached, holders):
    """In the place of gc_lists.c."""
    objects, targets = [thing for generation in range(generations) for thing in gc.get_objects(generation)], set(map(id, unreached))
    for thing in objects:
        if id(type(thing)) not in plain and thing is not objects and thing is not unreached and thing is not holders:
            for part in gc.get_referents(thing):
                holders += [part, thing] if id(part) in targets else []
    objects.clear()
    return True


def frame_variables(frame):
    """In the place of script_functions.c's; the tests' own variables are none of the program's."""
    if frame.f_code.co_name.startswith("test_"):
        return []
    where = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    return [part for name, value in frame.f_locals.items() for part in (frame.f_code.co_filename, where, name, value)]


def generator_variables(generator):
    """In the place of script_functions.c's."""
    for name in ("gi_frame", "cr_frame", "ag_frame"):
        frame = getattr(generator, name, None)
        if frame is not None:
            return frame_variables(frame)
    return []


def function_parts(function):
    code = function.__code__
    return [code.co_varnames[:code.co_argcount], code.co_freevars, function.__closure__, function.__defaults__,
            function.__kwdefaults__, function.__dict__]


def own_attributes(thing):
    for parent in type.__getattribute__(type(thing), "__mro__"):
        descriptor = type.__getattribute__(parent, "__dict__").get("__dict__")
        if descriptor is not None:
            return descriptor.__get__(thing) or None  # what has none yet is not to be given one


# What scripts.c gives, by other means.
GIVEN = dict(
    CELL=types.CellType, CODE=types.CodeType, FRAME=types.FrameType, FUNCTION=types.FunctionType, GENERATOR=types.GeneratorType,
    COROUTINE=types.CoroutineType, ASYNC_GENERATOR=types.AsyncGeneratorType, METHOD=types.MethodType, MODULE=types.ModuleType,
    TRACEBACK=types.TracebackType, ref=weakref.ref, sys=sys,
    collections=lambda generation: gc.get_stats()[generation]["collections"],
    processor_ns=time.thread_time_ns, referents=lambda thing: gc.get_referents(thing), own_attributes=own_attributes,
    frame_variables=frame_variables, generator_variables=generator_variables, function_parts=function_parts, find_unreached=find_unreached,
    find_holders=find_holders, LAUNCH=(b"RANK", b"WORLD_SIZE", b"VRAMTRACE_LABEL", b"MASTER_ADDR"))


SCRIPTS = ("objects.py", "find.py", "inspect.py", "arrays.py", "census.py", "holders.py")


def load(memory=None, **instead):
    """As scripts.c does: all scripts in one namespace."""
    memory = memory or dict(roots=[], root_holders=[], optimizers=[], optimizer_holders=[], written=[])
    scope = {"__builtins__": __builtins__, **GIVEN, **memory, **instead}
    for name in SCRIPTS:
        with open(os.path.join(FOLDER, name)) as file:
            exec(compile(file.read(), "<vramtrace>", "exec"), scope)
    return scope["inspect"]


def inspect(census_ns=0, memory=None, **variables):
    flat = [part for name, value in variables.items() for part in (__file__, "main", name, value)]
    return [line.split("\t") for line in load(memory)(flat, 0, 0, census_ns).splitlines()]


def kinds(lines, letter):
    return [line[1:] for line in lines if line[0] == letter]


def test_lines_behind_written_code():
    """Of the compiler's map, what an earlier inspection has not reported; nothing of what has another form."""
    one, two = [(5, 9), ("  File \"net.py\", line 3, in forward\n", "")], [(7,), ("  File \"net.py\", line 4, in half\n",)]
    maps = {"/tmp/a.py": one, "/tmp/b.py": two, "/tmp/c.py": [], 3: one}
    module = sys.modules["torch._inductor.codecache"] = types.ModuleType("codecache")
    module.PyCodeCache = type("PyCodeCache", (), {"linemaps": maps})
    memory = dict(roots=[], root_holders=[], optimizers=[], optimizer_holders=[], written=[])
    try:
        assert kinds(inspect(memory=memory), "W") == [
            ["/tmp/a.py", "5", "  File \"net.py\", line 3, in forward\\n"], ["/tmp/a.py", "9", ""],
            ["/tmp/b.py", "7", "  File \"net.py\", line 4, in half\\n"]]
        maps["/tmp/d.py"] = two
        assert [line[0] for line in kinds(inspect(memory=memory), "W")] == ["/tmp/d.py"]
    finally:
        del sys.modules["torch._inductor.codecache"]


def test_names():
    net = Module(first=Linear(weight=Parameter(4, 8), bias=Parameter(4)), norm=Module(scale=Parameter(8), mean=Tensor(8)))
    first = net._modules["first"]._parameters["weight"]
    first.gradient = Tensor(4, 8)
    optimizer = Optimizer([first])
    optimizer.state[first] = {"exp_avg": Tensor(4, 8), "step": 3}
    lines = inspect(net=net, optimizer=optimizer)
    assert kinds(lines, "R") == [["0", str(id(net)), "Module", "net"]]
    assert [line[3] for line in kinds(lines, "M")] == ["", "first", "norm"]
    assert kinds(lines, "O") == [["0", str(id(optimizer)), "Optimizer", "optimizer"]]
    told = [(line[0], line[2], int(line[3]), int(line[4]), line[7], line[8], line[10]) for line in kinds(lines, "T")]
    assert told == [
        ("parameter", "first.weight", first.address, 128, "float32", "4x8", ""),
        ("gradient", "first.weight", first.grad.address, 128, "float32", "4x8", ""),
        ("parameter", "first.bias", net._modules["first"]._parameters["bias"].address, 16, "float32", "4", ""),
        ("parameter", "norm.scale", net._modules["norm"]._parameters["scale"].address, 32, "float32", "8", ""),
        ("buffer", "norm.mean", net._modules["norm"]._buffers["mean"].address, 32, "float32", "8", ""),
        ("optimizer_state:exp_avg", "first.weight", optimizer.state[first]["exp_avg"].address, 128, "float32", "4x8", "0"),
    ]


def test_wrappers_and_several():
    inner = Linear(weight=Parameter(2))
    wrapped = DistributedDataParallel(module=inner)
    other = Linear(weight=Parameter(3))
    lines = inspect(inner=inner, wrapped=wrapped, models={"other": other}, self=types.SimpleNamespace(own=other))
    assert sorted(line[3] for line in kinds(lines, "R")) == ["own", "wrapped"]
    assert sorted(line[2] for line in kinds(lines, "T")) == ["weight", "weight"]


def test_raw_tensors():
    weight, unnamed = Tensor(5), Tensor(6)
    lines = inspect(weight=weight, optimizer=Optimizer([weight, unnamed]))
    assert [line[1:3] for line in kinds(lines, "T")] == [["-1", "weight"], ["-1", "optimizer.param_groups.0.params.1"]]


def test_distributed_tensors():
    whole = DistributedTensor(8)
    whole._local_tensor = Tensor(4)
    net = Module(unset=Parameter(1))
    net._parameters = {"weight": whole, "unset": DistributedTensor(2)}
    lines = inspect(net=net)
    assert [(line[2], int(line[3]), line[8]) for line in kinds(lines, "T")] == [
        ("weight", whole._local_tensor.address, "4")]


def test_parameters_whose_memory_a_library_took():
    """As DeepSpeed's: the process's own part is in an attribute."""
    weight, part, gradient = Parameter(0), Tensor(4), Tensor(4)
    weight.address = 0
    weight.__dict__.update(ds_tensor=part, ds_grad=gradient, ds_zero_rank=1, ds_world_size=2)
    assert [(*line[0::2][:2], int(line[3])) for line in kinds(inspect(net=Module(weight=weight)), "T")] == [
        ("parameter", "weight, shard 1 of 2", part.address), ("gradient", "weight, shard 1 of 2", gradient.address)]


def test_split_parameters():
    """As Megatron's: marked, and the module says how large the whole is, or on one process that there is no more. As vLLM's: the module
    alone says it."""
    def whole_of(*shape, marked=False, **sizes):
        weight = Parameter(*shape)
        weight.__dict__.update(dict(tensor_model_parallel=True, partition_dim=0) if marked else {})
        net = Module(weight=weight)
        net.__dict__.update(sizes)
        line, = kinds(inspect(net=net), "T")
        return line[11:]

    assert whole_of(4, 2, marked=True, output_size=8, output_size_per_partition=4) == ["8x2"]
    assert whole_of(4, 2, marked=True, output_size=4, output_size_per_partition=4) == []
    assert whole_of(4, 2, marked=True) == ["one that is split along dimension 0"]
    columns = dict(output_size=8, output_size_per_partition=4, input_size=4, input_size_per_partition=4)
    rows = dict(input_size=8, input_size_per_partition=4, output_size=4, output_size_per_partition=4)
    assert whole_of(4, 4, **columns) == ["8x4"] and whole_of(4, **columns) == ["8"]
    assert whole_of(4, 4, **rows) == ["4x8"] and whole_of(4, **rows) == [] and whole_of(4, 2) == []


def test_what_servers_know_of_their_pool():
    """By class and package; a class of the same name elsewhere says nothing."""
    def made(name, package, **inside):
        thing = type(name, (), {"__module__": f"{package}.inner"})()
        thing.__dict__.update(inside)
        return thing

    free = made("FreeBlocks", "vllm", num_free_blocks=90)
    engine = made("Engine", "vllm", pool=made("BlockPool", "vllm", num_gpu_blocks=100, free_block_queue=free),
                  config=made("CacheConfig", "vllm", num_gpu_blocks=None, block_size=16),
                  scheduler=made("Scheduler", "vllm", running=[1, 2, 3], max_model_len=8192), other=made("Scheduler", "torch", running=[1]))
    assert sorted(kinds(inspect(census_ns=10**9, engine=engine), "K")) == sorted([
        ["100", "", "", "90", "", ""], ["", "16", "", "", "", ""], ["", "", "", "", "3", "8192"]])
    paged = made("PagedAttentionCache", "transformers", num_blocks=8, max_tokens_read=256)
    assert kinds(inspect(census_ns=10**9, paged=paged), "K") == [["8", "", "256", "", "", ""]]


def test_state_of_what_a_wrapper_keeps():
    """Its optimizer gets the parameters for the step alone, but has state for them."""
    master, optimizer = Tensor(8), Optimizer([])
    optimizer.state[master] = {"exp_avg": Tensor(8)}
    assert [(line[0], line[2]) for line in kinds(inspect(optimizer=optimizer), "T")] == [
        ("parameter", "optimizer.state.0"), ("optimizer_state:exp_avg", "optimizer.state.0")]


class Wrapper:
    """An optimizer around others, whose class is not PyTorch's."""

    def __init__(self, **inside):
        self.__dict__.update(inside)

    def step(self):
        pass

    zero_grad = step


def test_optimizers_in_wrappers():
    """A wrapper in a wrapper, and a wrapper of several."""
    alone, first, second = (Optimizer([Tensor(8)]) for _ in range(3))
    trainer = types.SimpleNamespace(engine=Wrapper(optimizer=Wrapper(optimizer=alone)))
    lines = inspect(trainer=trainer, chain=Wrapper(chained=[Wrapper(optimizer=first), Wrapper(optimizer=second)]))
    assert {int(line[1]): line[3] for line in kinds(lines, "O") if line[2] == "Optimizer"} == {
        id(alone): "trainer.engine.optimizer.optimizer", id(first): "chain.chained[0].optimizer", id(second): "chain.chained[1].optimizer"}


def test_masters_that_parameters_have():
    """As Megatron's: what the optimizer trains is an attribute of the parameter that it is a copy of."""
    weight, master = Parameter(4), Tensor(4)
    weight.__dict__["main_param"] = master
    optimizer = Optimizer([master])
    optimizer.state[master] = {"exp_avg": Tensor(4)}
    assert [(line[0], line[2]) for line in kinds(inspect(net=Module(weight=weight), optimizer=optimizer), "T")] == [
        ("parameter", "weight"), ("parameter", "weight.main_param"), ("optimizer_state:exp_avg", "weight.main_param")]


def test_odd_names():
    net = Module(**{"a\tb\nc\\d": Parameter(1), "\u6587": Parameter(1), "\ud800": Parameter(1)})
    lines = inspect(net=net)
    assert [line[2] for line in kinds(lines, "T")] == ["a\\tb\\nc\\\\d", "\u6587", "?"]


class Trainer:
    def __init__(self):
        self.losses = []


class Node:
    pass


def make_hook():
    features = []

    def hook():
        return features
    return hook, features


history = []


def fail(kept):
    mine = Tensor(77)  # noqa: F841
    raise ValueError(kept)


def test_holders():
    gc.collect(), gc.disable()
    trainer, (hook, features), error = Trainer(), make_hook(), None
    try:
        fail(1)
    except ValueError as caught:
        error = caught
    trainer.losses.append({"loss": Tensor(1)})
    features.append(Tensor(2))
    history.extend([Tensor(3), Tensor(4)])
    generator = (item for item in [Tensor(5)])
    node = Node()
    node.self, node.tensor = node, Tensor(6)
    del node
    alone = Tensor(7)
    lines = inspect(CENSUS_TIME, trainer=trainer, hook=hook, error=error, alone=alone, generator=generator)
    holders = {line[8]: line[:2] for line in kinds(lines, "H")}
    assert holders["1"] == ["attribute", "list Trainer.losses, 1 item"]
    assert holders["2"][0] == "cell" and holders["2"][1].startswith("closure cell 'features' of ") and "hook" in holders["2"][1]
    assert holders["3"] == holders["4"] == ["global", "list 'history' in __main__, 2 items"]
    assert holders["7"] == ["local", "local 'alone' of main()"]
    assert holders["77"] == ["traceback", "traceback of ValueError, local 'mine' of fail()"]
    assert holders["6"] == ["cycle", "reference cycle Node -> Node"]
    assert "5" in holders
    gc.enable()


class Record:
    __slots__ = ("tensor", "before")

    def __init__(self, tensor, before):
        self.tensor, self.before = tensor, before


class Log:
    def __init__(self):
        self.newest = None


@functools.lru_cache(maxsize=None)
def cached(number):
    return Tensor(number)


def collect():
    shown = []
    while True:
        shown.append(Tensor(41))
        yield shown[-1]


async def serve(request):
    await asyncio.sleep(0)
    return request


def test_holders_of_other_kinds():
    """Keys, slots, numbered attributes, caches, generators, coroutines; several models."""
    log, net, stream, reply = Log(), types.SimpleNamespace(), collect(), serve(Tensor(42))
    log.newest = Record(Tensor(31), Record(Tensor(32), Record(Tensor(32), None)))
    for number in range(4):
        setattr(net, f"feature_{number}", Tensor(33))
    runs = {"train": {"loss": [1.0], "outputs": collections.deque([Tensor(34), Tensor(35)])}}
    many = {f"step {number}": [Tensor(36)] for number in range(20)}
    cached(37), next(stream)
    models = [Module(weight=Parameter(38)) for _ in range(3)]
    lines = inspect(CENSUS_TIME, log=log, net=net, runs=runs, many=many, cached=cached, stream=stream, reply=reply, models=models)
    reply.close()
    holders = {line[8]: line[1] for line in kinds(lines, "H")}
    assert holders["31"] == holders["32"] == "attribute Log.newest"
    assert holders["33"] == "attributes feature_* of SimpleNamespace, 4 items"
    assert holders["34"] == "deque 'runs['train']['outputs']' of main(), 2 items"
    assert holders["36"] == "dict 'many' of main(), 20 items"
    assert holders["37"] == "cache of cached(), 1 item"
    assert holders["38"] == "list 'models' of main(), 3 items"
    assert holders["41"] == "list 'shown' of collect(), 1 item" and holders["42"] == "local 'request' of serve()"
    (objects, ended, cycles), = kinds(lines, "C")
    assert int(objects) > 20 and ended == cycles == "1"


class State:
    def __init__(self, value):
        self.value = value
        self.update = lambda: self.value


def test_cycles_are_told_alike():
    """However often they are inspected: from 3.11 on, the first inspection makes an object's dict."""
    gc.collect(), gc.disable()
    State(Tensor(8))
    told = [kinds(inspect(CENSUS_TIME), "H") for _ in range(3)]
    assert [line[:2] for line in told[0]] == [["cycle", "reference cycle State -> function -> State"]], told
    assert told[1] == told[2] == told[0], told
    gc.enable()


def refuse(*_):
    if not armed:
        return 1
    calls.append(sys._getframe(1).f_lineno)
    raise RuntimeError("user code ran")


armed, calls = [], []


class Hostile:
    """Whatever is asked of it goes wrong."""
    __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getattr__ = __repr__ = __str__ = __call__ = refuse
    __class__ = __dict__ = property(refuse)


class HostileClass(type):
    __eq__ = __hash__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = refuse


def test_user_code():
    """Nothing of the program's own is called, and what else there is, is told."""
    odd = HostileClass("Odd", (), {})
    counter = type("Counter", (), {"__len__": refuse})()
    names = Hostile()
    plain = types.SimpleNamespace()
    plain.__dict__[names] = Tensor(51)
    module = types.ModuleType("program")
    module.__file__ = "program.py"
    module.__dict__[7] = Tensor(52)
    module.__dict__[names] = Tensor(53)
    module.Class = type("Class", (), {"__module__": names, "held": Tensor(54)})
    sys.modules["program"] = module
    state = type("State", (dict,), {"items": refuse, "__len__": refuse})()
    weight = Parameter(55)
    optimizer = Optimizer([weight])
    optimizer.state = state
    net = Module(weight=weight)
    for name in ("is_cuda", "is_leaf", "shape", "dtype", "grad", "grad_fn", "numel", "data_ptr",
                 "requires_grad", "untyped_storage"):
        setattr(OwnTensor, name, property(refuse))
    net._buffers["own"] = OwnTensor(56)
    net.__dict__[names] = Tensor(57)
    things = [object.__new__(odd), counter, Hostile(), plain, names, types.MethodType(Hostile(), 1), [Tensor(58)]]
    counter.held = Tensor(59)
    gc.disable()
    calls.clear(), armed.append(1)
    lines = inspect(CENSUS_TIME, things=things, odd=things[0], net=net, optimizer=optimizer, hostile=names)
    ran = list(calls)
    gc.enable(), armed.clear()
    del sys.modules["program"]
    assert not ran and not kinds(lines, "E"), (ran, kinds(lines, "E"))
    assert {"51", "52", "53", "57", "58", "59"} <= {line[8] for line in kinds(lines, "H")}
    assert {line[8] for line in kinds(lines, "T")} == {"55", "56"}


def test_partial():
    lines = inspect(CENSUS_TIME, hook=functools.partial(max, Tensor(61), key=Tensor(62)))
    holders = {line[8]: line[1] for line in kinds(lines, "H")}
    assert holders["61"] == holders["62"] == "local 'hook' of main()"


class Pointer:
    __slots__ = ("mem", "ptr")


class Memory:
    __slots__ = ("ptr", "size", "device_id")


class Array:
    """In the place of CuPy's."""
    __slots__ = ("data", "shape", "nbytes", "dtype")

    def __init__(self, address):
        self.data, self.shape, self.nbytes, self.dtype = Pointer(), (2,), 8, None
        self.data.mem, self.data.ptr = Memory(), address
        self.data.mem.ptr, self.data.mem.size, self.data.mem.device_id = address, 512, 0


def test_paths_of_arrays_do_not_depend_on_what_runs():
    library = types.ModuleType("cupy")
    library.ndarray, library.__file__ = Array, "/somewhere/site-packages/cupy/__init__.py"
    weight, moment, hidden = Array(1000), Array(2000), Array(3000)
    outer = [__file__, "main", "params", {"layers": [{"w": weight}]}, __file__, "main", "seen", {hidden: 1}]
    inner = [__file__, "step", "first", weight, __file__, "step", "all", [weight, moment, hidden]]
    own = ["/somewhere/site-packages/cupy/core.py", "add", "left", moment, "/somewhere/site-packages/cupy/core.py", "add", "given",
           [weight, hidden]]
    sys.modules["cupy"] = library
    try:
        for running, second in (([], None), (own, None), (inner, "all[1]"), (own + inner, "all[1]")):
            lines = [line.split("\t") for line in load()(running + outer, 0, 0, CENSUS_TIME).splitlines()]
            paths = {line[3]: line[2] for line in kinds(lines, "A")}
            assert paths.pop("1000") == "params['layers'][0]['w']" and paths.pop("2000", None) == second and not paths, lines
            holders = {line[3]: line[1] for line in kinds(lines, "H")}
            assert holders["1000"] == "list 'params['layers']' of main(), 1 item", holders
            assert holders["3000"] == "dict 'seen' of main(), 1 item", holders
            assert ("2000" in holders) == bool(running)
    finally:
        del sys.modules["cupy"]


def test_too_expensive():
    """An inspection that does not end in its time reports nothing but what it would take."""
    net = Module(**{f"layer{number}": Linear(weight=Parameter(2)) for number in range(4000)})
    readings, flat = itertools.count(0, 1_000_000), [__file__, "main", "net", net]

    def tell(started_ns, budget_ns):
        return load(processor_ns=lambda: next(readings))(flat, started_ns, budget_ns, 0)

    expensive = tell(0, 3_000_000)
    assert expensive.startswith("expensive ") and 3_000_000 < int(expensive.split()[1]) < 10**10
    assert tell(next(readings), 2 * int(expensive.split()[1])).count("\nT\t") == 4000
    assert tell(0, 0).count("\nT\t") == 4000


def test_budgets():
    """Of the names and of the census; what ran before the inspection on its thread counts."""
    net = Module(**{f"layer{number}": Linear(weight=Parameter(2)) for number in range(300)})
    waited_ns, second = 700_000_000, 1_000_000_000
    tell = load(processor_ns=lambda: 5 * second)
    expensive = tell([__file__, "main", "net", net], 5 * second - waited_ns, waited_ns - 1, 0)
    assert expensive.startswith("expensive ") and int(expensive.split()[1]) >= waited_ns
    deadlines = []
    tell = load(processor_ns=lambda: 5 * second, find_unreached=lambda *given: deadlines.append(given[4]) or True)
    for budget_ns, census_ns, deadline_ns in ((second, second, 5 * second + second - waited_ns), (0, second, 6 * second),
                                              (second, 60_000_000, 5 * second + 60_000_000)):
        tell([], 5 * second - waited_ns, budget_ns, census_ns)
        assert deadlines.pop() == deadline_ns, (budget_ns, census_ns)


def test_remembers():
    """The next inspection calls roots and optimizers by their numbers; the numbers of those that are gone are not given again."""
    memory = dict(roots=[], root_holders=[], optimizers=[], optimizer_holders=[], written=[])
    one, two = Linear(weight=Parameter(2)), Linear(weight=Parameter(3))
    first, second = Optimizer([one._parameters["weight"]]), Optimizer([two._parameters["weight"]])
    told = inspect(0, memory, one=one, two=two, first=first, second=second)
    numbers = {line[1]: line[0] for letter in "RO" for line in kinds(told, letter)}
    del one, first
    gc.collect()
    three, third = Linear(weight=Parameter(4)), Optimizer([two._parameters["weight"]])
    told = inspect(0, memory, three=three, third=third)
    assert [line[0] for line in kinds(told, "R")] == [numbers[str(id(two))], "2"]
    assert [line[0] for line in kinds(told, "O")] == [numbers[str(id(second))], "2"]
    assert [line[3] for line in kinds(told, "R")] == ["two", "three"]


def test_variables():
    """As os.environ has them now; of the names that are asked for."""
    kept, names = os.environ._data, {b"RANK": b"3", b"HOME": b"/", b"VRAMTRACE_LABEL": "\u00e9\tb".encode() + b"\xff",
                                     b"MASTER_ADDR": b"x" * 5000}
    try:
        os.environ._data = names
        assert kinds(inspect(), "V") == [["RANK", "3"], ["VRAMTRACE_LABEL", "\u00e9\\tb\ufffd"]]
        os.environ._data = type("Own", (dict,), {})(names)
        assert kinds(inspect(), "V") == []
    finally:
        os.environ._data = kept


def test_leaves_nothing():
    gc.collect()
    gc.disable()
    tensor, module = Tensor(9), Linear(weight=Parameter(2))
    references = [weakref.ref(tensor), weakref.ref(module)]
    lines = inspect(CENSUS_TIME, tensor=tensor, module=module, things=[tensor, {"module": module}])
    del tensor, module
    gone = [reference() is None for reference in references]
    gc.enable()
    assert lines and gone == [True, True]


if __name__ == "__main__":
    make_torch()
    support.finish("inspect", *support.run_tests(globals()))
