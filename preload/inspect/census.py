# The census: which Python name holds each live CUDA tensor, and each array of other libraries. It searches from the
# program's names (variables of running functions and of its modules, exceptions) through the objects that they hold, breadth
# first, so that the shortest way to a tensor is reported; if there are arrays, the way from the outermost function that leads
# to it. A tensor that no name reaches but that is alive is held by a cycle, or by C.
#
# Run like inspect.py, in the same namespace.

TENSOR, TORCH_MODULE, CLASS, ARRAY, OPTIMIZER, PYTHON_MODULE = 1, 2, 3, 4, 5, 6
OBJECTS_MAXIMUM = 200_000  # visited by one census
LARGE = 4096  # items: a larger container is searched only if its first items are worth it
FIRST, FIRST_LEVELS = 64, 3  # how many first items of a large container are looked at, and how deep
LEAST_NS = 5_000_000  # a census gets at least this much; most end in less
SHARE_OF_REPORT = 4  # 1/4 of the time is for the report: a search that is cut short tells what it found

# What a server knows of its pool of blocks for keys and values: package, class, and its attributes with the number of blocks, the tokens
# of each, those of all, the blocks that are free, the requests being worked on, and the most tokens that one may have. "a.b": b of a;
# "": it does not say.
SERVERS = {row[:2]: row[2:] for row in (
    ("vllm", "CacheConfig", "num_gpu_blocks", "block_size", "", "", "", ""),
    ("vllm", "BlockPool", "num_gpu_blocks", "", "", "free_block_queue.num_free_blocks", "", ""),
    ("vllm", "Scheduler", "", "", "", "", "running", "max_model_len"),
    ("vllm", "AsyncScheduler", "", "", "", "", "running", "max_model_len"),
    ("sglang", "Scheduler", "", "page_size", "max_total_num_tokens", "", "running_batch.reqs", "model_config.context_len"),
    ("transformers", "PagedAttentionCache", "num_blocks", "block_size", "max_tokens_read", "", "", ""),
)}
PROCESS_START = "/multiprocessing/process.py"  # its functions call that of a child
SERVER_CLASSES = {name for _, name in SERVERS}

SEARCHED_PLAIN = PLAIN - {id(FUNCTION)}  # a function holds what its closure holds
NAMED_BY_INSPECTIONS = {"_parameters", "_buffers", "_non_persistent_buffers_set"}
SEARCHED_LAST = {"_parameter_list", "_param_groups"}  # of Paddle's optimizers: layers have better names for their contents


def is_of_library(module, without_file):
    path = (attributes(module) or {}).get("__file__")  # not getattr: a module may define __getattr__
    if not isinstance(path, str):
        return without_file
    return "site-packages" in path or "dist-packages" in path or path.startswith(sys.base_prefix) or "/vramtrace_dryrun/" in path


def program_modules():
    """(name, module) of those that are no library's. Of a library only the package is looked at: its modules may be a thousand."""
    found, libraries = [], {}
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0] if type(name) is str else ""
        if top not in libraries:
            package = sys.modules.get(top)
            libraries[top] = top != "__main__" and has_class(package, MODULE) and is_of_library(package, False)
        if not libraries[top] and type(module) is MODULE and (name == "__main__" or not is_of_library(module, True)):
            found.append((name, module))
    return found


def make_census(torch, kinds, inspection, deadline_ns):
    queue = []  # (object, index of its holder, kind of step, name, where)
    collections, module_class = sys.modules["collections"], torch and sys.modules["torch.nn.modules.module"].Module
    wanted = {id(kind): ARRAY for kind, _ in kinds.values()}
    if torch:
        wanted.update({**{owner: OPTIMIZER for owner in inspection.owners}, id(torch.Tensor): TENSOR, id(module_class): TORCH_MODULE})
    wanted.update({id(type): CLASS, id(MODULE): PYTHON_MODULE})  # of modules' classes, too: modules that import their parts when asked
    sized = CONTAINERS | {id(kind) for kind in (
        set, frozenset, collections.OrderedDict, collections.defaultdict, collections.deque, collections.Counter)}
    return Namespace(
        inspection=inspection, ask=inspection.ask, deadline_ns=deadline_ns, complete=True, queue=queue,
        sized=sized, seen={id(queue), id(globals()), *inspection.hidden},
        plain=SEARCHED_PLAIN | ({id(torch.dtype), id(torch.device)} if torch else set()),
        collections=sized | {id(type(type.__dict__)), id(sys.modules["functools"].partial)},
        cache_class=(attributes(sys.modules.get("functools")) or {}).get("_lru_cache_wrapper"), slots={},  # by id of a class
        classes=(*((torch.Tensor, torch.nn.Parameter) if torch else ()), *(kind for kind, _ in kinds.values())),  # exactly
        module_class=module_class, wanted=wanted, kinds=kinds,
        steps={}, temporary=set(),  # for paths (arrays.py): steps by index of the holder; indices at which no path begins
        numpy_class=(attributes(sys.modules.get("numpy")) or {}).get("ndarray"),
        last=[],  # arguments for put, kept for the end
        searched=0, found=[], roots=[], in_module=set(),  # indices: tensors; optimizers, and modules that no other holds; what modules hold
        shared=set(), series={})  # names that mean several objects; numbered attributes: how many


def put(census, thing, parent, kind, name, where=""):
    identity, its_kind = id(thing), id(type(thing))
    if identity in census.seen or its_kind in census.plain or its_kind in census.sized and not len(thing):
        return
    census.seen.add(identity)
    census.queue.append((thing, parent, kind, name, where))


def put_module(census, module, parent):
    """For modules: a model may have thousands, each with a dozen containers that are empty or that inspect.py has searched."""
    kind, inside = class_name(module), attributes(module) or {}
    if parent not in census.in_module:
        census.roots.append(parent)
        census.in_module.add(parent)
    for name in ("_parameters", "_buffers"):
        census.seen.update(id(value) for _, value in entries(inside.get(name)))
    for name, value in entries(inside):
        if id(value) not in census.seen and id(type(value)) not in census.plain and key_name(name) not in NAMED_BY_INSPECTIONS:
            put(census, value, parent, "attribute", key_name(name), kind)


def first_items(things, count):
    """The first COUNT items, without copying all, read in one go: another thread may be adding to them."""
    return [thing for thing, _ in list(zip(things, range(count)))]


def is_data(thing, levels):
    """Whether it is numbers and texts, alone or in small containers: samples of a data set."""
    kind = type(thing)
    if kind is list or kind is tuple or kind is dict:
        return levels > 0 and len(thing) <= FIRST and all(
            is_data(item, levels - 1) for item in first_items(thing.values() if kind is dict else thing, FIRST))
    return id(kind) in PLAIN


def is_worth(thing, size):
    """Whether a container of SIZE items is searched."""
    return size <= LARGE or not all(is_data(item, FIRST_LEVELS) for item in first_items(thing, FIRST))


def bounded(census, things):
    """As many items as this census may still visit: one container may have millions."""
    for count, thing in enumerate(things):
        if count % CHECK_EVERY == CHECK_EVERY - 1 and is_over(census):
            census.complete = False
            return
        yield thing


def put_items(census, items, parent):
    for item in bounded(census, first_items(items, OBJECTS_MAXIMUM)) if len(items) > LARGE else list(items):
        put(census, item, parent, "item", "")


def put_dict(census, thing, parent):
    if is_worth(dict.values(thing), dict.__len__(thing)):
        large = dict.__len__(thing) > LARGE
        for key, value in bounded(census, first_items(dict.items(thing), OBJECTS_MAXIMUM)) if large else entries(thing):
            put(census, value, parent, "key", key if type(key) is str else "")
            put(census, key, parent, "item", "")
        put_attributes(census, thing, parent)


def put_function(census, function, parent):
    arguments, free_names, closure, defaults, named_defaults, inside = function_parts(function)
    for name, cell in zip(free_names, closure or ()):
        try:
            put(census, cell.cell_contents, parent, "cell", name, function.__qualname__)
        except ValueError:
            pass
    for name, value in zip(arguments[-len(defaults):], defaults) if defaults else ():
        put(census, value, parent, "default", name, function.__qualname__)
    for name, value in entries(named_defaults or {}):
        put(census, value, parent, "default", name, function.__qualname__)
    for name, value in entries(inside or {}):
        put(census, value, parent, "attribute", key_name(name), function.__qualname__)


def traceback_variables(error):
    return variables_of(BaseException.__traceback__.__get__(error))  # its class may override these


def variables_of(traceback):
    """(function, name, value) of the variables of the functions that an exception left, outermost first."""
    all_found = []
    while traceback is not None:
        parts = referents(traceback)  # the next one, and a frame
        for frame in parts:
            found = frame_variables(frame) if type(frame) is FRAME else ()  # reading f_locals of a running frame would keep them alive
            all_found += zip(found[1::4], found[2::4], found[3::4])
        following = [part for part in parts if type(part) is TRACEBACK]
        traceback = following[0] if following else None
    return all_found


def put_exception(census, error, parent):
    name = class_name(error)
    own = BaseException
    put_items(census, own.args.__get__(error), parent)
    for other in (own.__cause__.__get__(error), own.__context__.__get__(error)):
        put(census, other, parent, "exception", class_name(other))
    for where, variable, value in traceback_variables(error):
        put(census, value, parent, "traceback", variable, f"{where}\t{name}")


def slots_of(census, kind):
    """(name, its descriptor) of the slots that a class and its parents define in Python."""
    known = census.slots.get(id(kind))
    if known is None:
        known = census.slots[id(kind)] = []
        for parent in type.__getattribute__(kind, "__mro__"):
            inside = type.__getattribute__(parent, "__dict__")
            if "__slots__" in inside:
                known += [(name, value) for name, value in list(inside.items()) if type(value) is SLOT and type(name) is str]
    return known


def put_attributes(census, thing, parent):
    """Puts an object's attributes. Returns the dict that they are in, or None."""
    inside, kind = attributes(thing), class_name(thing)
    if inside is not None:
        for name, value in entries(inside):
            step = value, parent, "attribute", key_name(name), kind
            if step[3] in SEARCHED_LAST:
                census.last.append(step)
            else:
                put(census, *step)
    for name, descriptor in slots_of(census, type(thing)):
        try:
            put(census, descriptor.__get__(thing), parent, "attribute", name, kind)
        except AttributeError:  # not set
            pass
    return inside


def put_generator(census, thing, parent):
    """Puts the variables of a generator or coroutine; while it runs, they are a running function's."""
    found = generator_variables(thing)
    for where, variable, value in zip(found[1::4], found[2::4], found[3::4]):
        put(census, value, parent, "local", variable, where)
    for part in referents(thing):  # what it is waiting for
        if id(type(part)) not in census.sized and type(part) is not FRAME:
            put(census, part, parent, "item", "")


def number_at(thing, path):
    """The number that an attribute has, or of a list how long it is; "" if there is none."""
    for name in path.split("."):
        thing = (attributes(thing) or {}).get(name)
    return len(thing) if type(thing) is list else thing if type(thing) is int else ""


def report_server(census, thing, name):
    home = type.__getattribute__(type(thing), "__dict__").get("__module__")
    found = SERVERS.get((home.partition(".")[0], name)) if type(home) is str else None
    if found:
        census.inspection.lines.append("\t".join(("K", *(str(number_at(thing, path)) for path in found))) + "\n")


def put_contents(census, index):
    thing = census.queue[index][0]
    kind = type(thing)
    if kind is list or kind is tuple:
        if is_worth(thing, len(thing)):
            put_items(census, thing, index)
    elif has_class(thing, dict):
        put_dict(census, thing, index)
    elif kind is FUNCTION:
        put_function(census, thing, index)
    elif kind is METHOD:
        function, its_self = referents(thing)
        name = function.__qualname__ if type(function) is FUNCTION else ""
        put(census, its_self, index, "method", name)
        put(census, function, index, "function", name)
    elif kind is CELL:
        put_items(census, referents(thing), index)
    elif kind is GENERATOR or kind is COROUTINE or kind is ASYNC_GENERATOR:
        put_generator(census, thing, index)
    elif kind is census.cache_class:
        name = (attributes(thing) or {}).get("__qualname__")
        for part in referents(thing):
            put(census, part, index, "cache" if type(part) is dict else "item", name if type(name) is str else "function")
    elif has_class(thing, BaseException):
        put_exception(census, thing, index)
    elif kind is TRACEBACK:
        for where, variable, value in variables_of(thing):
            put(census, value, index, "traceback", variable, f"{where}\tan exception")
    elif id(kind) in census.collections:
        if id(kind) not in census.sized or is_worth(thing, len(thing)):
            put_items(census, [part for part in referents(thing) if part is not kind], index)
        put_attributes(census, thing, index)
    elif attributes(thing) is not None or slots_of(census, kind):  # it may hold more: a task has references in C
        if (name := type.__getattribute__(kind, "__name__")) in SERVER_CLASSES:
            report_server(census, thing, name)
        inside = put_attributes(census, thing, index)
        put_items(census, [part for part in referents(thing) if part is not kind and part is not inside], index)
    elif kind is census.numpy_class:
        if thing.dtype.kind == "O":  # the collector does not see its items
            items = thing.flat[:OBJECTS_MAXIMUM].tolist()
            if is_worth(items, len(items)):
                put_items(census, items, index)
    elif kind is not FRAME and kind is not CODE:  # iterators
        put_items(census, [part for part in referents(thing) if part is not kind], index)


def visit_object(census, thing, index):
    kind = None
    if census.queue[index][1] in census.in_module:
        census.in_module.add(index)
    for parent in type.__getattribute__(type(thing), "__mro__"):
        kind = census.wanted.get(id(parent))
        if kind is not None:
            break
    if kind == TENSOR or kind == ARRAY:
        census.found.append(index)
        if kind == TENSOR:
            put_attributes(census, thing, index)
    elif kind == TORCH_MODULE:
        put_module(census, thing, index)
    elif kind in (None, OPTIMIZER):
        if kind:
            census.roots.append(index)
        put_contents(census, index)


def search_queue(census):
    """Searches what was put since the last search. Returns whether it finished."""
    while census.searched < len(census.queue):
        index = census.searched
        thing = census.queue[index][0]
        try:
            visit_object(census, thing, index)
        except Exception:  # changed by another thread meanwhile, or unusual: go on with the next
            census.complete = False
        census.searched += 1
        if census.searched % CHECK_EVERY == 0 and is_late(census) or census.searched > OBJECTS_MAXIMUM:
            census.complete = False
            return False
    return True


def is_over(census):
    return len(census.queue) > OBJECTS_MAXIMUM or is_late(census)


def is_late(census):
    late = processor_ns() > census.deadline_ns
    census.complete = census.complete and not late
    return late


def put_class(census, kind, module):
    """Puts the attributes of a class that the program defines."""
    inside = type.__getattribute__(kind, "__dict__")
    home = inside.get("__module__")
    if type(home) is str and home == module:
        for name, part in list(inside.items()):
            put(census, part, -1, "attribute", key_name(name), type.__getattribute__(kind, "__qualname__"))


def put_local(census, where, name, value):
    put(census, value, -1, "global" if where == "<module>" else "local", name, "__main__" if where == "<module>" else where)


def search_calls(census, variables):
    """Puts the variables of each function before those of the functions that it called."""
    folders, function = array_folders(), None
    for file, where, name, value in variables:
        if function != (file, where) and not search_queue(census):
            return False
        function, index = (file, where), len(census.queue)
        put_local(census, where, name, value)
        if index < len(census.queue) and file.startswith(folders):
            census.temporary.add(index)
    return search_queue(census)


def search_errors(census, handled):
    """The exceptions that the interpreter keeps: the one being handled, and the last that nothing handled."""
    for name in ("last_exc", "last_value"):
        error = getattr(sys, name, None)
        if has_class(error, BaseException) and hasattr(sys, "ps1"):  # an interactive session: it goes on
            put(census, error, -1, "exception", f"sys.{name}")
        elif has_class(error, BaseException):  # it ended the program: its functions' variables are held as before
            for where, variable, value in traceback_variables(error):
                put(census, value, -1, "local", variable, where)
    put(census, getattr(sys, "last_traceback", None), -1, "exception", "sys.last_traceback")
    put(census, handled, -1, "exception", class_name(handled))
    return search_queue(census)


def search_last(census):
    for step in census.last:
        put(census, *step)
    search_queue(census)


def take_census(variables, torch, kinds, inspection, deadline_ns, handled, context):
    census = make_census(torch, kinds, inspection, deadline_ns - max(0, deadline_ns - processor_ns()) // SHARE_OF_REPORT)
    variables = list(zip(variables[::4], variables[1::4], variables[2::4], variables[3::4]))[::-1]  # outermost first
    own = max((number for number, (file, _, _, _) in enumerate(variables, 1) if file.endswith(PROCESS_START)), default=0)
    variables = variables[own:] + variables[:own]  # a forked child has its parent's functions, too: they come last
    for name, module in program_modules():
        for variable, value in entries(module.__dict__):
            if not key_name(variable).startswith("__"):
                put(census, value, -1, "global", key_name(variable), name)
                if has_class(value, type):
                    put_class(census, value, name)
    for variable, value in context.items() if context is not None else ():
        put(census, value, -1, "context", variable.name)
    try:
        # what lasts holds a tensor, rather than what is running right now
        if search_queue(census) and search_calls(census, variables) and search_errors(census, handled):
            search_last(census)
        census.deadline_ns = deadline_ns
        report_census(census, inspection.lines)
        ended = census.complete and len(census.found) <= TENSORS_MAXIMUM
        cycles = ended and report_unreached(census, inspection.lines)
        inspection.lines.append(f"C\t{len(census.queue)}\t{int(ended)}\t{int(bool(cycles))}\n")
    finally:  # lists of all objects hold themselves
        census.queue.clear(), census.steps.clear(), census.last.clear(), variables.clear()
