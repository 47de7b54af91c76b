# Run by inspect.c at a safe point of the host: tells which live object every CUDA tensor of its modules and optimizers
# is. What it returns is told in format.h (struct vt_look_part). It must not be noticed: no user code is run (only
# attributes are read, and torch's own methods with overrides off), and nothing but weak references stays. So all of this
# is run anew for each look and let go of after it, there are no classes (object.__subclasses__() would list them) and no
# imports, and what raises audit events or makes something for good (a function's __code__, a frame's f_code, an object's
# __dict__, id) is asked of inspect.c.
#
# Given by inspect.c: sys, the interpreter's types (CELL, ...), functions (inspect_methods.c), and the lists of what is
# remembered from look to look: roots and optimizers, as weak references (None where there can be none), and their holders.

TRANSPARENT = {  # steps of a path that the user never wrote: (class of the wrapper, attribute)
    ("DistributedDataParallel", "module"), ("DataParallel", "module"), ("OptimizedModule", "_orig_mod"),
    ("FullyShardedDataParallel", "_fsdp_wrapped_module"), ("CheckpointWrapper", "_checkpoint_wrapped_module"),
    ("DeepSpeedEngine", "module"), ("_LightningModuleWrapperBase", "_forward_module"),
}
# By id, since a metaclass may have its own idea of what it equals.
PLAIN = {id(kind) for kind in (type(None), int, float, bool, str, bytes, complex, type, MODULE, type(len), FUNCTION)}
SLOT = type(MODULE.__dict__["__dict__"])
OWN_DICT = {id(SLOT), id(type(FUNCTION.__dict__["__code__"]))}  # made by the interpreter
CONTAINERS = {id(list), id(tuple), id(dict)}
TOLD_BY_TENSORS = ("data_ptr", "dtype", "element_size", "get_device", "grad", "grad_fn", "is_cuda", "is_leaf", "numel", "shape",
                   "storage_offset", "untyped_storage")
ITEMS_MAXIMUM = 256  # of a container or an object that is looked into

Namespace = type(sys.implementation)


def attributes(thing):
    """The object's own dict or a copy of it, unless its class gives out something of its own making for it."""
    try:
        for parent in type.__getattribute__(type(thing), "__mro__"):
            descriptor = type.__getattribute__(parent, "__dict__").get("__dict__")
            if descriptor is not None:
                found = (own_attributes(thing) or {}) if id(type(descriptor)) in OWN_DICT else None
                return found if type(found) is dict else None
    except Exception:
        pass
    return None


def slot(thing, name):
    """What a class with slots keeps under that name, None without."""
    for parent in type.__getattribute__(type(thing), "__mro__"):
        descriptor = type.__getattribute__(parent, "__dict__").get(name)
        if descriptor is not None:
            return descriptor.__get__(thing) if type(descriptor) is SLOT else None
    return None


def class_name(thing):
    return type.__getattribute__(type(thing), "__name__")


def has_class(thing, wanted):
    """isinstance, without asking the object or its class."""
    for parent in type.__getattribute__(type(thing), "__mro__"):
        if parent is wanted:
            return True
    return False


def entries(thing):
    """What a dict holds, by the dict's own doing."""
    if not has_class(thing, dict):  # torch.jit's
        thing = (attributes(thing) or {}).get("_python_modules")
    return list(dict.items(thing)) if has_class(thing, dict) else ()


def items(thing):
    return list.__getitem__(thing, slice(None)) if has_class(thing, list) else thing if type(thing) is tuple else ()


def key_name(key):
    return str.__str__(key) if has_class(key, str) else repr(key) if type(key) is int else ""


def item_name(name, key):
    return f"{name}[{key!r}]" if type(key) is str or type(key) is int else name


def tensor_functions(torch, names):
    """By name: what torch itself tells of a tensor, whatever a subclass or a patch makes of it."""
    base = torch._C.__dict__.get("TensorBase") or torch._C.__dict__["_TensorBase"]
    own = {name: type.__getattribute__(base, "__dict__")[name] for name in names}
    return {name: found if callable(found) else found.__get__ for name, found in own.items()}


def text(value):
    if value.isascii() and value.isprintable() and "\\" not in value:
        return value
    if "\\" in value or not value.isprintable():
        value = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return value.encode("utf-8", "replace").decode()


# ---- modules and optimizers among variables, their attributes, and items of containers; with what holds them ----

def make_finder(module_class, optimizer_class, tensor_class):
    modules, found, tensors = {}, {}, {}  # id: (object, holder)
    return Namespace(modules=modules, optimizers=found, tensors=tensors, seen=set(),
                     wanted={id(module_class): modules, id(optimizer_class): found, id(tensor_class): tensors})


def take(finder, name, value):
    """True if it is one of those searched for."""
    if id(type(value)) in PLAIN:
        return True
    for parent in type.__getattribute__(type(value), "__mro__"):
        found = finder.wanted.get(id(parent))
        if found is not None:
            known = found.get(id(value))
            if known is None or not known[1]:
                found[id(value)] = (value, name)
            return True
    return False


def look_into(finder, name, value):
    if id(value) in finder.seen:
        return
    finder.seen.add(id(value))
    kind = type(value)
    if id(kind) in CONTAINERS:
        if len(value) > ITEMS_MAXIMUM:
            return
        for key, item in list(value.items() if kind is dict else enumerate(value)):
            take(finder, item_name(name, key), item)
        return
    inside = attributes(value)
    if inside is None or len(inside) > ITEMS_MAXIMUM:
        return
    for key, item in list(inside.items()):
        if type(key) is not str:
            continue
        path = key if name == "self" else f"{name}.{key}"
        if not take(finder, path, item) and id(type(item)) in CONTAINERS and len(item) <= ITEMS_MAXIMUM:
            for inner, part in list(item.items() if type(item) is dict else enumerate(item)):
                take(finder, item_name(path, inner), part)


def add_variables(finder, variables):
    """A variable of its own is a better name than a place in something else."""
    others = []
    for name, value in variables:
        name = "" if name in ("self", "module") else name
        if not take(finder, name, value):
            others.append((name or "self", value))
    for name, value in others:
        look_into(finder, name, value)


def children(module):
    return [child for _, child in entries((attributes(module) or {}).get("_modules"))]


def find_roots(finder):
    """Modules that no other holds, those of earlier looks with the numbers that they had; and the ids of all modules."""
    inner, walked = set(), set()
    for value, _ in list(finder.modules.values()):
        waiting = [value]
        while waiting:
            module = waiting.pop()
            if id(module) in walked:
                continue
            walked.add(id(module))
            for child in children(module):
                if child is not None:
                    inner.add(id(child))
                    waiting.append(child)
    numbers = {id(module): number for number, module in alive(roots)}
    for identity, (value, holder) in finder.modules.items():
        if identity in inner:
            continue
        if identity not in numbers:
            remember(roots, root_holders, value, holder)
        elif holder and not root_holders[numbers[identity]]:
            root_holders[numbers[identity]] = holder
    return [(number, root) for number, root in alive(roots) if id(root) not in inner], walked


def alive(references):
    """(number, object) of those that are remembered and still there."""
    things = [(number, reference()) for number, reference in enumerate(references) if reference is not None]
    return [(number, thing) for number, thing in things if thing is not None]


def remember(references, holders, value, holder):
    try:
        references.append(ref(value))
    except TypeError:  # its class has no room for weak references: such an object is looked at once
        references.append(None)
    holders.append(holder)


# ---- telling ----

TooDear = TimeoutError


def make_look(torch, deadline_ns):
    return Namespace(lines=[], deadline_ns=deadline_ns, asked=0, ask=tensor_functions(torch, TOLD_BY_TENSORS),
                     address_of=getattr(torch._C, "_data_address", None), tensor_class=torch.Tensor,
                     plain={id(torch.Tensor), id(torch.nn.Parameter)}, shapes={},  # (dtype, shape): as text
                     names={}, told=set(), addresses=set())  # id of a parameter: (root, path)


def place_of(look, tensor):
    """Its storage's address and, as text, all of a line that says where it lies and what it looks like. None of a tensor
    without CUDA memory of its own (fake, lazy, a wrapper), nor of one whose class may answer for it."""
    ask = look.ask
    try:
        if id(type(tensor)) not in look.plain and answers_itself(look, tensor) or not ask["is_cuda"](tensor):
            return None
        element, offset = ask["element_size"](tensor), ask["storage_offset"](tensor)
        base = look.address_of(tensor) if look.address_of else ask["data_ptr"](tensor) - offset * element
        if not base:
            return None
        looks = (ask["dtype"](tensor), ask["shape"](tensor))
        told = look.shapes.get(looks)
        if told is None:
            told = look.shapes[looks] = f"{str(looks[0]).replace('torch.', '')}\t{'x'.join(map(str, looks[1]))}"
        return base, (f"{base + offset * element}\t{ask['numel'](tensor) * element}\t{base}\t"
                      f"{ask['untyped_storage'](tensor).nbytes()}\t{told}\t{ask['get_device'](tensor)}")
    except Exception:
        return None


def answers_itself(look, tensor):
    """Python code of its class stands for torch's operators, and may stand for its shape and device."""
    for parent in type.__getattribute__(type(tensor), "__mro__"):
        if parent is look.tensor_class:
            return False
        if "__torch_dispatch__" in type.__getattribute__(parent, "__dict__"):
            return True
    return True


def add_tensor(look, role, root, path, tensor, optimizer=""):
    if id(type(tensor)) not in look.plain:
        try:  # a distributed tensor's own part
            local = slot(tensor, "_local_tensor")
        except AttributeError:
            local = None
        tensor = tensor if local is None else local
    place = place_of(look, tensor)
    look.asked += 1
    if look.deadline_ns and look.asked % CHECK_EVERY == 0 and now_ns() > look.deadline_ns:
        raise TooDear
    if place:
        look.addresses.add(place[0])
        look.lines.append(f"T\t{role}\t{root}\t{path}\t{place[1]}\t{optimizer}\n")


def add_parameter(look, root, path, parameter):
    add_tensor(look, "parameter", root, path, parameter)
    try:
        gradient = look.ask["grad"](parameter) if look.ask["is_leaf"](parameter) else None  # of another, asking warns
    except Exception:
        return
    if gradient is not None:
        add_tensor(look, "gradient", root, path, gradient)


def add_module(look, root, module, path):
    """The module and all in it, depth first; each module once, by its first path."""
    inside = attributes(module)
    if inside is None or id(module) in look.told:
        return
    look.told.add(id(module))
    name = class_name(module)
    look.lines.append(f"M\t{root}\t{id(module)}\t{text(name)}\t{path}\n")
    dot = path + "." if path else ""
    for key, parameter in entries(inside.get("_parameters")):
        if parameter is not None:
            own = dot + text(key_name(key))
            if id(parameter) not in look.names:
                look.names[id(parameter)] = (root, own)
            add_parameter(look, root, own, parameter)
    for key, buffer in entries(inside.get("_buffers")):
        if buffer is not None:
            add_tensor(look, "buffer", root, dot + text(key_name(key)), buffer)
    for key, child in entries(inside.get("_modules")):
        if child is not None:
            add_module(look, root, child, path if (name, key_name(key)) in TRANSPARENT else dot + text(key_name(key)))


def add_optimizer(look, number, optimizer, variables):
    inside = attributes(optimizer)
    if inside is None:
        return
    for index, group in enumerate(items(inside.get("param_groups"))):
        for position, parameter in enumerate(parameters_of(group)):
            if id(parameter) in look.names or not has_class(parameter, look.tensor_class):
                continue
            known = variables.get(id(parameter))
            path = text(known[1] if known and known[1] else f"optimizer.param_groups.{index}.params.{position}")
            look.names[id(parameter)] = (-1, path)
            add_parameter(look, -1, path, parameter)
    for parameter, values in entries(inside.get("state")):
        root, path = look.names.get(id(parameter), (-1, ""))
        for key, value in entries(values):
            if has_class(value, look.tensor_class):
                add_tensor(look, f"optimizer_state:{text(key_name(key))}", root, path, value, number)


def parameters_of(group):
    for key, value in entries(group):
        if type(key) is str and key == "params":
            return items(value)
    return ()


def find(variables, torch):
    module_class = sys.modules["torch.nn.modules.module"].Module
    optimizer_module = sys.modules.get("torch.optim.optimizer")
    finder = make_finder(module_class, optimizer_module.Optimizer if optimizer_module else None, torch.Tensor)
    main = attributes(sys.modules.get("__main__"))
    named = [pair for pair in list(main.items()) if type(pair[0]) is str and not pair[0].startswith("__")] if main else []
    add_variables(finder, named + list(zip(variables[1::3], variables[2::3]))[::-1])  # outermost first: the script's own names
    for number, root in alive(roots):
        take(finder, root_holders[number], root)
    for number, optimizer in alive(optimizers):
        take(finder, optimizer_holders[number], optimizer)
    return finder


def tell(variables, torch, started_ns, budget_ns, census_ns, handled, context):
    """The lines; of a look that does not end within its budget, if it has one, only what it would take: "dear NANOSECONDS"."""
    finder = find(variables, torch)
    look = make_look(torch, budget_ns and started_ns + budget_ns)
    found, walked = find_roots(finder)
    found_ns = now_ns()
    try:
        tell_all(look, finder, found)
    except TooDear:
        parts = max(2, len(walked) / max(1, len(look.told)))
        return f"dear {int(found_ns - started_ns + (now_ns() - found_ns) * parts)}"
    if census_ns:
        until_ns = now_ns() + census_ns
        take_census(variables, torch, look, min(until_ns, look.deadline_ns or until_ns), handled, context)
    return "".join(look.lines)


def tell_all(look, finder, found):
    for number, root in found:
        look.lines.append(f"R\t{number}\t{id(root)}\t{text(class_name(root))}\t{text(root_holders[number])}\n")
        add_module(look, number, root, "")
    known = {id(optimizer) for _, optimizer in alive(optimizers)}
    for identity, (optimizer, holder) in finder.optimizers.items():
        if identity not in known:
            remember(optimizers, optimizer_holders, optimizer, holder)
    for number, optimizer in alive(optimizers):
        look.lines.append(f"O\t{number}\t{id(optimizer)}\t{text(class_name(optimizer))}\t{text(optimizer_holders[number])}\n")
        add_optimizer(look, number, optimizer, finder.tensors)


def look_last(function):
    """Has the program's exit call it."""
    sys.modules["atexit"].register(function)


def look(variables, started_ns, budget_ns, census_ns, handled=None, context=None):
    """Times are those of CLOCK_MONOTONIC: the program waits from started_ns on, and may for budget_ns (0: without limit)."""
    torch = sys.modules.get("torch")
    if torch is None or "torch.nn.modules.module" not in sys.modules or "_C" not in (attributes(torch) or {}):
        return ""
    with torch._C.DisableTorchFunction():
        return tell(variables, torch, started_ns, budget_ns, census_ns, handled, context)
