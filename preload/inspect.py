# Run by inspect.c at a safe point of the host: tells which live object every CUDA tensor of its modules and optimizers
# is. What it returns is told in format.h (struct vt_look_part). It must not be noticed: no user code is run (only
# __dict__ is read, and torch's own methods with overrides off), and nothing but weak references stays.
import sys
from _weakref import ref

TRANSPARENT = {  # steps of a path that the user never wrote: (class of the wrapper, attribute)
    ("DistributedDataParallel", "module"), ("DataParallel", "module"), ("OptimizedModule", "_orig_mod"),
    ("FullyShardedDataParallel", "_fsdp_wrapped_module"), ("CheckpointWrapper", "_checkpoint_wrapped_module"),
    ("DeepSpeedEngine", "module"), ("_LightningModuleWrapperBase", "_forward_module"),
}
# By id, since a metaclass may have its own idea of what it equals.
PLAIN = {id(kind) for kind in (type(None), int, float, bool, str, bytes, complex, type, type(sys), type(len), type(ref),
                               type(lambda: 0))}
SLOT = type(type(sys).__dict__["__dict__"])
OWN_DICT = {id(SLOT), id(type(type(lambda: 0).__dict__["__code__"]))}  # made by the interpreter
CONTAINERS = {id(list), id(tuple), id(dict)}
TOLD_BY_TENSORS = ("data_ptr", "dtype", "element_size", "get_device", "grad", "grad_fn", "is_cuda", "is_leaf", "numel", "shape",
                   "storage_offset", "untyped_storage")
SHAPES_MAXIMUM = 4096
ITEMS_MAXIMUM = 256  # of a container or an object that is looked into

roots = []  # (number, weak reference, holder)
optimizers = []
shapes = {}  # (dtype, shape): as text
thresholds = []  # of the collector, while it pauses


def attributes(thing):
    """The object's own dict, unless its class gives out something of its own making for it."""
    try:
        for parent in type.__getattribute__(type(thing), "__mro__"):
            descriptor = type.__getattribute__(parent, "__dict__").get("__dict__")
            if descriptor is not None:
                found = descriptor.__get__(thing) if id(type(descriptor)) in OWN_DICT else None
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


class Finder:
    """Modules and optimizers among variables, their attributes, and items of containers; with what holds them."""

    def __init__(self, module_class, optimizer_class, tensor_class):
        self.modules, self.optimizers, self.tensors = {}, {}, {}  # id: (object, holder)
        self.wanted = {id(module_class): self.modules, id(optimizer_class): self.optimizers, id(tensor_class): self.tensors}
        self.seen = set()

    def take(self, name, value):
        """True if it is one of those searched for."""
        if id(type(value)) in PLAIN:
            return True
        for parent in type.__getattribute__(type(value), "__mro__"):
            found = self.wanted.get(id(parent))
            if found is not None:
                known = found.get(id(value))
                if known is None or not known[1]:
                    found[id(value)] = (value, name)
                return True
        return False

    def look_into(self, name, value):
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        kind = type(value)
        if id(kind) in CONTAINERS:
            if len(value) > ITEMS_MAXIMUM:
                return
            for key, item in list(value.items()) if kind is dict else enumerate(value):
                self.take(item_name(name, key), item)
            return
        inside = attributes(value)
        if inside is None or len(inside) > ITEMS_MAXIMUM:
            return
        for key, item in list(inside.items()):
            if type(key) is not str:
                continue
            path = key if name == "self" else f"{name}.{key}"
            if not self.take(path, item) and id(type(item)) in CONTAINERS and len(item) <= ITEMS_MAXIMUM:
                for inner, part in list(item.items()) if type(item) is dict else enumerate(item):
                    self.take(item_name(path, inner), part)

    def add(self, variables):
        """A variable of its own is a better name than a place in something else."""
        others = []
        for name, value in variables:
            name = "" if name in ("self", "module") else name
            if not self.take(name, value):
                others.append((name or "self", value))
        for name, value in others:
            self.look_into(name, value)


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
    known = {id(module): entry for entry in roots for module in (entry[1](),) if module is not None}
    for identity, (value, holder) in finder.modules.items():
        if identity in inner:
            continue
        if identity in known:
            entry = known[identity]
            if holder and not entry[2]:
                entry[2] = holder
        else:
            roots.append([len(roots), weak(value), holder])
    found = [entry for entry in roots for module in (entry[1](),) if module is not None and id(module) not in inner]
    return found, walked


class TooDear(Exception):
    pass


class Look:
    def __init__(self, torch, deadline_ns):
        self.lines = []
        self.deadline_ns, self.asked = deadline_ns, 0
        self.ask = tensor_functions(torch, TOLD_BY_TENSORS)
        self.address_of = getattr(torch._C, "_data_address", None)
        self.plain = {id(torch.Tensor), id(torch.nn.Parameter)}
        self.tensor_class = torch.Tensor
        self.names = {}  # id of a parameter: (root, path)
        self.told = set()
        self.addresses = set()

    def place(self, tensor):
        """Its storage's address and, as text, all of a line that says where it lies and what it looks like. None of a tensor
        without CUDA memory of its own (fake, lazy, a wrapper), nor of one whose class may answer for it."""
        ask = self.ask
        try:
            if id(type(tensor)) not in self.plain and self.answers_itself(tensor) or not ask["is_cuda"](tensor):
                return None
            element, offset = ask["element_size"](tensor), ask["storage_offset"](tensor)
            base = self.address_of(tensor) if self.address_of else ask["data_ptr"](tensor) - offset * element
            if not base:
                return None
            looks = (ask["dtype"](tensor), ask["shape"](tensor))
            told = shapes.get(looks)
            if told is None:
                if len(shapes) > SHAPES_MAXIMUM:
                    shapes.clear()
                told = shapes[looks] = f"{str(looks[0]).replace('torch.', '')}\t{'x'.join(map(str, looks[1]))}"
            return base, (f"{base + offset * element}\t{ask['numel'](tensor) * element}\t{base}\t"
                          f"{ask['untyped_storage'](tensor).nbytes()}\t{told}\t{ask['get_device'](tensor)}")
        except Exception:
            return None

    def answers_itself(self, tensor):
        """Python code of its class stands for torch's operators, and may stand for its shape and device."""
        for parent in type.__getattribute__(type(tensor), "__mro__"):
            if parent is self.tensor_class:
                return False
            if "__torch_dispatch__" in type.__getattribute__(parent, "__dict__"):
                return True
        return True

    def tensor(self, role, root, path, tensor, optimizer=""):
        if id(type(tensor)) not in self.plain:
            try:  # a distributed tensor's own part
                local = slot(tensor, "_local_tensor")
            except AttributeError:
                local = None
            tensor = tensor if local is None else local
        place = self.place(tensor)
        self.asked += 1
        if self.deadline_ns and self.asked % CHECK_EVERY == 0 and perf_counter_ns() > self.deadline_ns:
            raise TooDear
        if place:
            self.addresses.add(place[0])
            self.lines.append(f"T\t{role}\t{root}\t{path}\t{place[1]}\t{optimizer}\n")

    def parameter(self, root, path, parameter):
        self.tensor("parameter", root, path, parameter)
        try:
            gradient = self.ask["grad"](parameter) if self.ask["is_leaf"](parameter) else None  # of another, asking warns
        except Exception:
            return
        if gradient is not None:
            self.tensor("gradient", root, path, gradient)

    def module(self, root, module, path):
        """The module and all in it, depth first; each module once, by its first path."""
        inside = attributes(module)
        if inside is None or id(module) in self.told:
            return
        self.told.add(id(module))
        name = class_name(module)
        self.lines.append(f"M\t{root}\t{id(module)}\t{text(name)}\t{path}\n")
        dot = path + "." if path else ""
        for key, parameter in entries(inside.get("_parameters")):
            if parameter is not None:
                own = dot + text(key_name(key))
                if id(parameter) not in self.names:
                    self.names[id(parameter)] = (root, own)
                self.parameter(root, own, parameter)
        for key, buffer in entries(inside.get("_buffers")):
            if buffer is not None:
                self.tensor("buffer", root, dot + text(key_name(key)), buffer)
        for key, child in entries(inside.get("_modules")):
            if child is not None:
                self.module(root, child, path if (name, key_name(key)) in TRANSPARENT else dot + text(key_name(key)))

    def optimizer(self, number, optimizer, variables):
        inside = attributes(optimizer)
        if inside is None:
            return
        for index, group in enumerate(items(inside.get("param_groups"))):
            for position, parameter in enumerate(parameters_of(group)):
                if id(parameter) in self.names or not has_class(parameter, self.tensor_class):
                    continue
                known = variables.get(id(parameter))
                path = text(known[1] if known and known[1] else f"optimizer.param_groups.{index}.params.{position}")
                self.names[id(parameter)] = (-1, path)
                self.parameter(-1, path, parameter)
        for parameter, values in entries(inside.get("state")):
            root, path = self.names.get(id(parameter), (-1, ""))
            for key, value in entries(values):
                if has_class(value, self.tensor_class):
                    self.tensor(f"optimizer_state:{text(key_name(key))}", root, path, value, number)


def parameters_of(group):
    for key, value in entries(group):
        if type(key) is str and key == "params":
            return items(value)
    return ()


def find(variables, torch):
    module_class = sys.modules["torch.nn.modules.module"].Module
    optimizer_module = sys.modules.get("torch.optim.optimizer")
    finder = Finder(module_class, optimizer_module.Optimizer if optimizer_module else None, torch.Tensor)
    main = attributes(sys.modules.get("__main__"))
    named = [pair for pair in list(main.items()) if type(pair[0]) is str and not pair[0].startswith("__")] if main else []
    finder.add(named + list(zip(variables[1::3], variables[2::3]))[::-1])  # outermost first: the script's own names
    for entry in roots + optimizers:
        value = entry[1]()
        if value is not None:
            finder.take(entry[2], value)
    return finder


def tell(variables, torch, census_ns, handled, budget_ns, context):
    """The lines; of a look that does not end within its budget, if it has one, only what it would take: "dear NANOSECONDS"."""
    started_ns = perf_counter_ns()
    finder = find(variables, torch)
    look = Look(torch, budget_ns and started_ns + budget_ns)
    found, walked = find_roots(finder)
    found_ns = perf_counter_ns()
    try:
        tell_all(look, finder, found)
    except TooDear:
        parts = max(2, len(walked) / max(1, len(look.told)))
        return f"dear {int(found_ns - started_ns + (perf_counter_ns() - found_ns) * parts)}"
    if census_ns:
        take_census(variables, torch, look, census_ns, handled, context)
    return "".join(look.lines)


def tell_all(look, finder, found):
    for number, reference, holder in found:
        root = reference()
        if root is not None:
            look.lines.append(f"R\t{number}\t{id(root)}\t{text(class_name(root))}\t{text(holder)}\n")
            look.module(number, root, "")
    known = {id(optimizer) for entry in optimizers for optimizer in (entry[1](),) if optimizer is not None}
    for identity, (optimizer, holder) in finder.optimizers.items():
        if identity not in known:
            optimizers.append([len(optimizers), weak(optimizer), holder])
    for number, reference, holder in optimizers:
        optimizer = reference()
        if optimizer is not None:
            look.lines.append(f"O\t{number}\t{id(optimizer)}\t{text(class_name(optimizer))}\t{text(holder)}\n")
            look.optimizer(number, optimizer, finder.tensors)


def start(last_look):
    import atexit, posix  # parts of the interpreter
    atexit.register(last_look)
    posix.register_at_fork(after_in_child=resume_collector)  # by another thread, in the middle of a look


def weak(value):
    try:
        return ref(value)
    except TypeError:  # its class has no room for weak references: such an object is looked at once
        return lambda: None


def pause_collector():
    """What is made here would bring the host's next collection forward. Not by gc.disable: a thread of the host may call
    that, or gc.enable, meanwhile."""
    collector = sys.modules.get("gc")
    if collector is not None and collector.get_threshold()[0]:
        thresholds.append(collector.get_threshold())
        collector.set_threshold(0)


def resume_collector():
    if thresholds:
        if sys.modules["gc"].get_threshold()[0] == 0:
            sys.modules["gc"].set_threshold(*thresholds[-1])
        thresholds.pop()  # not before: a thread that forks between the two leaves its child a collector that stands still


def look(variables, census_ns, handled=None, budget_ns=0, context=None):
    torch = sys.modules.get("torch")
    if torch is None or "torch.nn.modules.module" not in sys.modules or not hasattr(torch, "_C"):
        return ""
    pause_collector()
    try:
        with torch._C.DisableTorchFunction():
            return tell(variables, torch, census_ns, handled, budget_ns, context)
    finally:
        resume_collector()
