# The census of inspect.py: which Python name holds each live CUDA tensor. A search from the names that a program has
# (variables of running functions and of its modules, exceptions) through what they hold, breadth first, so that the
# shortest way to a tensor is the one told. What no name reaches and is alive all the same is held by a cycle, or by C.
from time import perf_counter_ns

TENSOR, TORCH_MODULE, CLASS = 1, 2, 3
OBJECTS_MAXIMUM = 200_000  # that one census visits
TENSORS_MAXIMUM = 4096
NODES_MAXIMUM = 4096  # of one tensor's autograd graph
LARGE = 4096  # items of a container that is looked into only if its first ones are worth it
CYCLES_MAXIMUM, CYCLE_OBJECTS_MAXIMUM = 64, 2000  # tensors that are told of, objects that the search for one visits
YOUNG_GENERATIONS = (0, 1)  # of the collector: cheap to list
OLD_GENERATION_NS = 100_000_000  # left of the time for a census that also lists all old objects
CHECK_EVERY, TOLD_EVERY = 256, 16  # objects that are visited, tensors that are told, between two looks at the clock

FUNCTION, METHOD, MODULE = type(look), type(weak.__get__(1)), type(sys)
SEARCHED_PLAIN = PLAIN - {id(FUNCTION)}  # a function holds what its closure does


def _a_cell():
    content = 1
    return (lambda: content).__closure__[0]


CELL = type(_a_cell())
NAMED_BY_LOOKS = {"_parameters", "_buffers", "_non_persistent_buffers_set"}
FRAME, CODE = type(sys._getframe()), type(look.__code__)
GENERATOR = type(item for item in ())


def is_library(module):
    path = module.__dict__.get("__file__")  # not by getattr: a module may answer for what it does not have
    return not isinstance(path, str) or "site-packages" in path or "dist-packages" in path or path.startswith(sys.base_prefix)


class Census:
    def __init__(self, torch, told, deadline_ns):
        self.told, self.deadline_ns = told, deadline_ns
        self.tensor_class = torch.Tensor
        self.queue = []  # (object, index of what holds it, kind of step, name, where)
        self.seen = {id(self.queue), id(roots), id(optimizers), id(globals())}
        self.found, self.shared = [], set()  # indices of tensors; names that stand for several objects
        self.plain = SEARCHED_PLAIN | {id(torch.dtype), id(torch.device)}
        collections = sys.modules["collections"]
        self.sized = CONTAINERS | {id(kind) for kind in (
            set, frozenset, collections.OrderedDict, collections.defaultdict, collections.deque, collections.Counter)}
        self.collections = self.sized | {id(type(type.__dict__)), id(sys.modules["functools"].partial)}
        self.module_class = sys.modules["torch.nn.modules.module"].Module
        self.wanted = {id(torch.Tensor): TENSOR, id(self.module_class): TORCH_MODULE, id(type): CLASS}
        self.ask = told.ask
        self.array_class = (attributes(sys.modules.get("numpy")) or {}).get("ndarray")
        self.complete = True

    def put(self, thing, parent, kind, name, where=""):
        identity, its_kind = id(thing), id(type(thing))
        if identity in self.seen or its_kind in self.plain or its_kind in self.sized and not len(thing):
            return
        self.seen.add(identity)
        self.queue.append((thing, parent, kind, name, where))

    def put_module(self, module, parent):
        """A model may have thousands, each with a dozen containers that the look has been through or that are empty."""
        kind = class_name(module)
        for name, value in entries(attributes(module)):
            if id(value) not in self.seen and id(type(value)) not in self.plain and key_name(name) not in NAMED_BY_LOOKS:
                self.put(value, parent, "attribute", key_name(name), kind)

    def put_items(self, items, parent, large):
        if large:
            items = list(items)
            if all(id(type(item)) in PLAIN for item in items[:64]):
                return
        for item in items:
            self.put(item, parent, "item", "")

    def put_function(self, function, parent):
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                self.put(cell.cell_contents, parent, "cell", name, function.__qualname__)
            except ValueError:
                pass
        defaults = function.__defaults__ or ()
        for name, value in zip(code.co_varnames[:code.co_argcount][-len(defaults):], defaults):
            self.put(value, parent, "default", name, function.__qualname__)
        for name, value in entries(function.__kwdefaults__):
            self.put(value, parent, "default", name, function.__qualname__)
        for name, value in entries(function.__dict__):
            self.put(value, parent, "attribute", key_name(name), function.__qualname__)

    def put_exception(self, error, parent):
        name = class_name(error)
        own = BaseException  # its class may have its own idea of these
        self.put_items(own.args.__get__(error), parent, False)
        for other in (own.__cause__.__get__(error), own.__context__.__get__(error)):
            self.put(other, parent, "exception", class_name(other))
        traceback = own.__traceback__.__get__(error)
        while traceback is not None:
            code = traceback.tb_frame.f_code
            where = getattr(code, "co_qualname", code.co_name)
            found = frame_variables(traceback.tb_frame)  # inspect.c: f_locals of one that goes on would keep them alive
            for variable, value in zip(found[1::3], found[2::3]):
                self.put(value, parent, "traceback", variable, f"{where}\t{name}")
            traceback = traceback.tb_next

    def put_attributes(self, thing, parent):
        """Gives the dictionary that they stand in, or None."""
        inside = attributes(thing)
        if inside is not None:
            kind = class_name(thing)
            for name, value in entries(inside):
                self.put(value, parent, "attribute", key_name(name), kind)
        return inside

    def expand(self, index):
        thing = self.queue[index][0]
        kind = type(thing)
        if kind is list or kind is tuple:
            self.put_items(thing, index, len(thing) > LARGE)
        elif kind is dict:
            if len(thing) > LARGE and all(id(type(value)) in PLAIN for value, _ in zip(thing.values(), range(64))):
                return
            for key, value in list(thing.items()):
                self.put(value, index, "key", key if type(key) is str else "")
        elif kind is FUNCTION:
            self.put_function(thing, index)
        elif kind is METHOD:
            name = thing.__func__.__qualname__ if type(thing.__func__) is FUNCTION else ""
            self.put(thing.__self__, index, "method", name)
            self.put(thing.__func__, index, "function", name)
        elif kind is CELL:
            self.put_items(referents(thing), index, False)
        elif kind is GENERATOR:
            if thing.gi_frame is not None:
                for value in referents(thing) + referents(thing.gi_frame):
                    if type(value) is not dict:  # its globals
                        self.put(value, index, "generator", "", thing.__qualname__)
        elif has_class(thing, BaseException):
            self.put_exception(thing, index)
        elif id(kind) in self.collections:
            self.put_items([part for part in referents(thing) if part is not kind], index, False)
            self.put_attributes(thing, index)
        elif attributes(thing) is not None:  # it may hold more than that: slots, what C keeps in a cache or a task
            inside = self.put_attributes(thing, index)
            self.put_items([part for part in referents(thing) if part is not kind and part is not inside], index, False)
        elif kind is self.array_class:
            if thing.dtype.kind == "O":  # the collector knows nothing of what it holds
                self.put_items(thing.ravel().tolist(), index, thing.size > LARGE)
        elif kind is not FRAME and kind is not CODE:  # iterators, objects with slots
            self.put_items([part for part in referents(thing) if part is not kind], index, False)

    def visit(self, thing, index):
        kind = None
        for parent in type.__getattribute__(type(thing), "__mro__"):
            kind = self.wanted.get(id(parent))
            if kind is not None:
                break
        if kind == TENSOR:
            self.found.append(index)
            self.put_attributes(thing, index)
        elif kind == TORCH_MODULE:
            self.put_module(thing, index)
        elif kind is None and type(thing) is not MODULE:
            self.expand(index)

    def search(self):
        index = 0
        while index < len(self.queue):
            thing = self.queue[index][0]
            try:
                self.visit(thing, index)
            except Exception:  # changed by another thread meanwhile, or odd: what else there is comes next
                self.complete = False
            index += 1
            if index % CHECK_EVERY == 0 and (self.is_late() or index > OBJECTS_MAXIMUM):
                self.complete = False
                return

    def is_late(self):
        late = perf_counter_ns() > self.deadline_ns
        self.complete = self.complete and not late
        return late

    # ---- telling ----

    def named(self, index):
        """The nearest on the way that has a name of its own."""
        while self.queue[index][1] >= 0 and (not self.queue[index][3] or self.queue[index][2] in ("key", "method", "function")):
            index = self.queue[index][1]
        return index

    def find_shared(self):
        """Attributes that tensors of several objects hang on: what they have in common is not these, but what holds the objects."""
        first = {}
        for index in self.found[:TENSORS_MAXIMUM]:
            at = self.named(index)
            if first.setdefault(self.queue[at][2:], at) != at:
                self.shared.add(self.queue[at][2:])

    def holder_of(self, index):
        at = up = self.named(index)
        while self.queue[at][2] == "attribute" and self.queue[at][2:] in self.shared:
            up = self.queue[up][1]
            if up < 0 or has_class(self.queue[up][0], self.module_class):
                break  # no container: layers of a model have the same attributes
            thing, _, kind, name, _ = self.queue[up]
            if name and kind not in ("key", "method", "function") and self.is_container(thing):
                return self.queue[up][0], *self.queue[up][2:]
        return self.queue[at][0], *self.queue[at][2:]

    def is_container(self, thing):
        return id(type(thing)) in self.sized

    def describe(self, index):
        """(kind, what holds it, the whole way)"""
        named, steps = self.holder_of(index), []
        while index >= 0:
            thing, parent, kind, name, where = self.queue[index]
            steps.append((thing, kind, name, where))
            index = parent
        way = " < ".join(filter(None, (self.step(*step) for step in steps)))
        holder = self.step(*named)
        for thing, kind, _, where in steps:
            if kind == "traceback":
                return "traceback", f"traceback of {where.partition(chr(9))[2]}, {holder}", way
        return named[1], holder, way

    def step(self, thing, kind, name, where):
        size = what = ""
        if self.is_container(thing):
            size, what = f", {len(thing)} item{'s' if len(thing) != 1 else ''}", class_name(thing)
        if kind == "local":
            return f"{what + ' ' if what else 'local '}'{name}' of {where}(){size}"
        if kind == "global":
            return f"{what or 'variable'} '{name}' in {where}{size}"
        if kind == "attribute":
            return f"{what or 'attribute'} {where}.{name}{size}"
        if kind == "cell":
            return f"closure cell '{name}' of {where}{size and ', ' + what + size}"
        if kind == "default":
            return f"default '{name}' of {where}(){size and ', ' + what + size}"
        if kind == "context":
            return f"context variable '{name}'{size and ', ' + what + size}"
        if kind == "traceback":
            return f"local '{name}' of {where.partition(chr(9))[0]}(){size}"
        if kind == "key":
            return f"key '{name}'" if name else ""
        if kind == "generator":
            return f"generator {where}()"
        if kind == "exception":
            return f"exception {name}"
        return ""

    def graph(self, tensor):
        """Name of the node that made it, and the numbers of those that its graph keeps, as ranges."""
        node = self.ask["grad_fn"](tensor)
        if node is None:
            return "", ""
        numbers, waiting, seen = [], [node], {node}
        for count, current in enumerate(waiting):
            if count == NODES_MAXIMUM or count % CHECK_EVERY == CHECK_EVERY - 1 and self.is_late():
                break
            number = current._sequence_nr()
            if number < 1 << 62:  # a leaf's has none
                numbers.append(number)
            for following, _ in current.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    waiting.append(following)
        ranges = []
        for number in sorted(numbers):
            if ranges and number <= ranges[-1][1] + 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
        return node.name(), ",".join(f"{first}-{last}" for first, last in ranges)

    def tell(self, lines):
        self.find_shared()
        for count, index in enumerate(self.found[:TENSORS_MAXIMUM]):
            tensor = self.queue[index][0]
            if count % TOLD_EVERY == 0 and self.is_late():
                break
            if id(tensor) in self.told.names:  # a parameter
                continue
            kind, holder, way = self.describe(index)
            self.tell_tensor(lines, tensor, kind, holder, way)
        if not self.complete or len(self.found) > TENSORS_MAXIMUM:
            lines.append("E\tthe census stopped before its end: too many objects, or no time left\n")

    def tell_tensor(self, lines, tensor, kind, holder, way):
        place = self.told.place(tensor)
        try:
            if place and (place[0] not in self.told.addresses or self.ask["grad_fn"](tensor) is not None):
                name, ranges = self.graph(tensor)
                lines.append(f"H\t{kind}\t{text(holder)}\t{text(way)}\t{place[1]}\t{name}\t{ranges}\n")
        except Exception:  # a graph that is let go of by another thread
            return


def parts_of(thing):
    """What it refers to; of a function not all that its module has."""
    if type(thing) is FUNCTION:
        return [part for part in (thing.__closure__, thing.__defaults__, thing.__dict__) if part]
    return referents(thing)


def cycle_of(thing):
    """The classes on a way from the object back to itself, or None. An object's dict is told as the object, which begins
    the way: whether it has one yet is no matter of the program's."""
    parents, waiting = [-1], [thing]
    seen = {id(thing), id(parents), id(waiting)}
    for index, current in enumerate(waiting):
        for part in parts_of(current):
            if part is thing:
                names, is_own_dict = [], attributes(current) is thing
                while index >= 0:
                    if attributes(waiting[index]) is not None:
                        names.append(class_name(waiting[index]))
                    index = parents[index]
                waiting.clear()
                return names[:1] + names[:0:-1] if is_own_dict else names[::-1]
            if (id(part) not in seen and id(type(part)) not in SEARCHED_PLAIN and not has_class(part, type)
                    and len(waiting) < CYCLE_OBJECTS_MAXIMUM):
                seen.add(id(part))
                waiting.append(part)
                parents.append(index)
    waiting.clear()
    return None


def referents(thing):
    return sys.modules["gc"].get_referents(thing)


def tell_unreached(census, lines):
    """Tensors that no name leads to: in a cycle that waits for the collector, or held by C."""
    unreached, holders = [], []
    try:
        old = census.deadline_ns - perf_counter_ns() > OLD_GENERATION_NS
        generations = YOUNG_GENERATIONS + (2,) if old else YOUNG_GENERATIONS
        collector = sys.modules["gc"]
        if not find_unreached(collector.get_objects, collector.get_referents, census.tensor_class, census.seen,
                              SEARCHED_PLAIN, generations, census.deadline_ns, unreached, holders):  # collected.h
            return
        holder_of = {}
        for tensor, holder in holders:
            holder_of.setdefault(id(tensor), holder)
        for tensor in unreached[:CYCLES_MAXIMUM]:
            holder = holder_of.get(id(tensor))
            names = cycle_of(holder) if holder is not None else None
            if names:
                loop = "reference cycle " + " -> ".join(names + names[:1])
                census.tell_tensor(lines, tensor, "cycle", loop, loop)
    finally:
        unreached.clear(), holders.clear()


def put_class(census, kind, module):
    """What a class of the program's own holds."""
    inside = type.__getattribute__(kind, "__dict__")
    home = inside.get("__module__")
    if type(home) is str and home == module:
        for name, part in list(inside.items()):
            census.put(part, -1, "attribute", key_name(name), type.__getattribute__(kind, "__qualname__"))


def take_census(variables, torch, told, budget_ns, handled, context):
    collector = sys.modules.get("gc")
    if collector is None:
        return
    census = Census(torch, told, perf_counter_ns() + budget_ns)
    for where, name, value in reversed(list(zip(variables[::3], variables[1::3], variables[2::3]))):  # outermost first
        census.put(value, -1, "global" if where == "<module>" else "local", name, "__main__" if where == "<module>" else where)
    for name, module in list(sys.modules.items()):
        if type(module) is MODULE and (name == "__main__" or not is_library(module)):
            for variable, value in entries(module.__dict__):
                if not key_name(variable).startswith("__"):
                    census.put(value, -1, "global", key_name(variable), name)
                    if has_class(value, type):
                        put_class(census, value, name)
    for variable, value in context.items() if context is not None else ():
        census.put(value, -1, "context", variable.name)
    for error in (handled, getattr(sys, "last_value", None)):  # being handled; printed, as the program ends
        census.put(error, -1, "exception", class_name(error))
    try:
        census.search()
        census.tell(told.lines)
        if census.complete:
            tell_unreached(census, told.lines)
    finally:  # lists of all objects hold themselves
        census.queue.clear()
