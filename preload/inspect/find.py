# Finds the modules and optimizers of the program: in variables, their attributes, and items of containers.
#
# Run like inspect.py, in the same namespace, before it.

WRAPPED = ("optimizer", "_optimizer", "optim", "base_optimizer")  # attributes where wrappers keep their optimizer
ITEMS_MAXIMUM = 256  # searched per container or object


def make_finder(module_class, optimizer_class, tensor_class):
    modules, found, tensors = {}, {}, {}  # id: (object, holder)
    return Namespace(modules=modules, optimizers=found, tensors=tensors, seen=set(), unwrapped=set(),
                     owners={id(module_class), id(optimizer_class)},
                     wanted={id(module_class): modules, id(optimizer_class): found, id(tensor_class): tensors})


def take_object(finder, name, value):
    """True if it is one of the objects searched for."""
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


def take_optimizers(finder, name, value):
    """The optimizers that VALUE wraps, each of them perhaps a wrapper again, or VALUE itself, if it has steps and parameters although
    its class is not PyTorch's."""
    inside = attributes(value)
    if inside is None or id(value) in finder.unwrapped:
        return
    finder.unwrapped.add(id(value))
    has_step = has_method(value, "step")
    for key, item in list(inside.items()):
        if type(key) is not str or id(type(item)) in PLAIN:
            continue
        if key in WRAPPED:
            take_wrapped(finder, f"{name}.{key}", item)
        elif has_step and id(type(item)) in CONTAINERS:
            for number, each in numbered(item):
                if id(type(each)) not in PLAIN and has_method(each, "step"):
                    take_wrapped(finder, item_name(f"{name}.{key}", number), each)
    if not any(find_class(item, finder.wanted) in finder.owners for item in list(inside.values())) and \
            has_step and (has_method(value, "zero_grad") or "param_groups" in inside):
        finder.optimizers.setdefault(id(value), (value, name))


def take_wrapped(finder, name, value):
    take_object(finder, name, value)
    take_optimizers(finder, name, value)


def numbered(container):
    """Its keys and items, or none if there are too many to search."""
    return list(container.items() if type(container) is dict else enumerate(container)) if len(container) <= ITEMS_MAXIMUM else ()


def take_items(finder, name, container):
    for key, item in numbered(container):
        take_object(finder, item_name(name, key), item)


def search_inside(finder, name, value):
    if id(value) in finder.seen:
        return
    finder.seen.add(id(value))
    if id(type(value)) in CONTAINERS:
        take_items(finder, name, value)
        return
    inside = attributes(value)
    if inside is None or len(inside) > ITEMS_MAXIMUM:
        return
    take_optimizers(finder, name, value)
    for key, item in list(inside.items()):
        if type(key) is not str:
            continue
        path = key if name == "self" else f"{name}.{key}"
        if take_object(finder, path, item):
            continue
        if id(type(item)) in CONTAINERS:
            take_items(finder, path, item)
        else:
            take_optimizers(finder, path, item)


def add_variables(finder, variables):
    """Variables first: a variable is a better name than a place inside another object."""
    others = []
    for name, value in variables:
        name = "" if name in ("self", "module") else name
        if not take_object(finder, name, value):
            others.append((name or "self", value))
    for name, value in others:
        search_inside(finder, name, value)


def children(module):
    return [child for _, child in entries((attributes(module) or {}).get("_modules"))]


def find_roots(finder):
    """(number, module) of the modules that no other holds, numbered as in earlier inspections; and the ids of all modules."""
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
    numbers = {id(module): number for number, module in alive_objects(roots)}
    for identity, (value, holder) in finder.modules.items():
        if identity in inner:
            continue
        if identity not in numbers:
            remember_object(roots, root_holders, value, holder)
        elif holder and not root_holders[numbers[identity]]:
            root_holders[numbers[identity]] = holder
    return [(number, root) for number, root in alive_objects(roots) if id(root) not in inner], walked


def alive_objects(references):
    """(number, object) of the remembered objects that are still alive."""
    things = [(number, reference()) for number, reference in enumerate(references) if reference is not None]
    return [(number, thing) for number, thing in things if thing is not None]


def remember_object(references, holders, value, holder):
    try:
        references.append(ref(value))
    except TypeError:  # its class allows no weak references: inspected only once
        references.append(None)
    holders.append(holder)


def left_variables(handled):
    """(name, value) of the functions that an exception left: the one being handled, or the one that ended the program. What these
    were building is nowhere else."""
    ended = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)  # an interactive session goes on
    return [(name, value) for error in (handled, ended) if has_class(error, BaseException)
            for _, name, value in traceback_variables(error) if type(name) is str]


def find_objects(variables, torch, handled):
    module_class = sys.modules["torch.nn.modules.module"].Module
    optimizer_module = sys.modules.get("torch.optim.optimizer")
    finder = make_finder(module_class, optimizer_module.Optimizer if optimizer_module else None, torch.Tensor)
    main = attributes(sys.modules.get("__main__"))
    named = [pair for pair in list(main.items()) if type(pair[0]) is str and not pair[0].startswith("__")] if main else []
    running = list(zip(variables[2::4], variables[3::4]))[::-1]  # outermost first: the script's own names
    add_variables(finder, named + running + left_variables(handled))
    for number, root in alive_objects(roots):
        take_object(finder, root_holders[number], root)
    for number, optimizer in alive_objects(optimizers):
        take_object(finder, optimizer_holders[number], optimizer)
    return finder
