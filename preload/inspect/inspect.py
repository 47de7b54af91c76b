# Run by inspect.c at a safe point of the host: finds out which live object each CUDA tensor of its modules and optimizers
# is. format.h (struct vt_inspection_part) describes the lines that it returns.
#
# The host must not notice it. So no user code is run: only attributes are read, and torch's own methods are called with
# overrides off. Only weak references stay: everything here is run afresh for each inspection and freed after it. There
# are no classes (object.__subclasses__() would list them) and no imports. What would raise audit events or leave
# something behind (a function's __code__, a frame's f_code, an object's __dict__, id) is read by script_functions.c.
#
# All scripts share one namespace. Given by scripts.c: sys, LAUNCH (the names of launch.def), the interpreter's types
# (CELL, ...), the functions of script_functions.c, and what is kept between inspections: roots and optimizers (as weak
# references, None where there can be none) and their holders; written: how much of a compiler's map has been reported.

TRANSPARENT = {  # parts of a path that the user did not write: (class of the wrapper, attribute)
    ("DistributedDataParallel", "module"), ("DataParallel", "module"), ("OptimizedModule", "_orig_mod"),
    ("FullyShardedDataParallel", "_fsdp_wrapped_module"), ("CheckpointWrapper", "_checkpoint_wrapped_module"),
    ("DeepSpeedEngine", "module"), ("_LightningModuleWrapperBase", "_forward_module"),
}
TENSOR_FUNCTIONS = ("data_ptr", "dtype", "element_size", "get_device", "grad", "grad_fn", "is_cuda", "is_leaf", "numel",
                   "requires_grad", "shape", "storage_offset", "untyped_storage")
STATE_LEVELS, STATE_ITEMS = 4, 4096  # how deep an optimizer's own containers are searched, and how many items of each
reads_gradients = True  # not while another thread may free them
PARTS_DEPTH = 3  # for tensors that consist of others
CHECK_EVERY = 256  # tensors, or objects of the census, between two looks at the clock
PER_PART = "_per_partition"  # how an attribute ends that has a process's part of a size
VALUE_BYTES = 1024  # per variable; no launcher's is longer


def tensor_functions(torch, names):
    """By name: torch's own functions of a tensor, even if a subclass or a patch overrides them."""
    base = torch._C.__dict__.get("TensorBase") or torch._C.__dict__["_TensorBase"]
    own = {name: type.__getattribute__(base, "__dict__")[name] for name in names}
    return {name: found if callable(found) else found.__get__ for name, found in own.items()}


# ---- reporting ----

TooExpensive = TimeoutError


def make_inspection(torch, deadline_ns):
    return Namespace(lines=[], owners=(), deadline_ns=deadline_ns, asked=0,
                     ask=torch and tensor_functions(torch, TENSOR_FUNCTIONS),
                     address_of=torch and getattr(torch._C, "_data_address", None), tensor_class=torch and torch.Tensor,
                     plain={id(torch.Tensor), id(torch.nn.Parameter)} if torch else set(),
                     hidden={id(roots), id(optimizers), id(globals())},
                     shown={},  # (dtype, shape): as text
                     names={}, kept_for={},  # id of a parameter, or of a tensor that it has as an attribute: (root, path)
                     reported=set(), addresses=set())


def place_of(inspection, tensor):
    """The address of its storage and, as text, the fields of a line from data_address to device_index. None for a tensor
    without CUDA memory of its own (fake, lazy, a wrapper), and for one whose class may override the answers."""
    ask = inspection.ask
    try:
        if id(type(tensor)) not in inspection.plain and answers_itself(inspection, tensor) or not ask["is_cuda"](tensor):
            return None
        element, offset = ask["element_size"](tensor), ask["storage_offset"](tensor)
        base = inspection.address_of(tensor) if inspection.address_of else ask["data_ptr"](tensor) - offset * element
        if not base:
            return None
        dtype_shape = (ask["dtype"](tensor), ask["shape"](tensor))
        shown = inspection.shown.get(dtype_shape)
        if shown is None:
            dtype, shape = str(dtype_shape[0]).replace("torch.", ""), "x".join(map(str, dtype_shape[1]))
            shown = inspection.shown[dtype_shape] = f"{dtype}\t{shape}"
        return base, (f"{base + offset * element}\t{ask['numel'](tensor) * element}\t{base}\t"
                      f"{ask['untyped_storage'](tensor).nbytes()}\t{shown}\t{ask['get_device'](tensor)}")
    except Exception:
        return None


def answers_itself(inspection, tensor):
    """Whether Python code of its class replaces torch's operators, and perhaps shape and device too."""
    for parent in type.__getattribute__(type(tensor), "__mro__"):
        if parent is inspection.tensor_class:
            return False
        if "__torch_dispatch__" in type.__getattribute__(parent, "__dict__"):
            return True
    return True


def add_parts(inspection, role, root, path, tensor, optimizer, depth):
    """The tensors that a tensor without memory consists of (levels and scales of a quantized weight)."""
    for key, part in list((attributes(tensor) or {}).items()):
        if type(key) is str and has_class(part, inspection.tensor_class):
            add_tensor(inspection, role, root, f"{path}.{text(key)}", part, optimizer, depth=depth)


def whole_shape(tensor):
    """For a distributed tensor: the field with the shape of all its parts together."""
    try:
        meta = attributes(slot(tensor, "_spec"))["tensor_meta"]
        return "\t" + "x".join(map(str, tuple.__getitem__(meta, 0)))
    except Exception:
        return ""


def split_shape(inspection, module, parameter):
    """As whole_shape, for a parameter whose module says what the whole is: output_size beside output_size_per_partition. A library may
    mark the dimension; else outputs are the first of a weight, and inputs the last."""
    inside = attributes(parameter) or {}
    dimension = inside.get("partition_dim") if inside.get("tensor_model_parallel") is True else None
    sizes = {key[:-len(PER_PART)]: part for key, part in list(module.items()) if type(key) is str and key.endswith(PER_PART)}
    sizes = [(name, part, module.get(name)) for name, part in sizes.items() if type(part) is type(module.get(name)) is int]
    if type(dimension) is not int and all(part == whole for _, part, whole in sizes):
        return ""
    shape = list(tuple.__iter__(inspection.ask["shape"](parameter)))
    if any(type(size) is not int for size in shape):  # traced: comparing it would leave a guard behind
        return ""
    if not sizes:
        return f"\tone that is split along dimension {dimension}"
    whole = list(shape)
    for name, part, size in sizes:
        of_inputs = name.startswith("input")
        at = [number for number, own in enumerate(shape) if own == part and (type(dimension) is not int or number == dimension)]
        if at and part != size and (len(shape) > 1 or not of_inputs):  # a bias has outputs only
            whole[at[-1 if of_inputs else 0]] = size
    return "" if whole == shape else "\t" + "x".join(map(str, whole))


def add_tensor(inspection, role, root, path, tensor, optimizer="", if_new=False, depth=PARTS_DEPTH, whole=""):
    if id(type(tensor)) not in inspection.plain:
        try:  # the local part of a distributed tensor
            local = slot(tensor, "_local_tensor")
        except AttributeError:
            local = None
        if local is not None:
            tensor, whole = local, whole_shape(tensor)
    place = place_of(inspection, tensor)
    inspection.asked += 1
    if inspection.deadline_ns and inspection.asked % CHECK_EVERY == 0 and processor_ns() > inspection.deadline_ns:
        raise TooExpensive
    if place and not (if_new and place[0] in inspection.addresses):
        inspection.addresses.add(place[0])
        inspection.lines.append(f"T\t{role}\t{root}\t{path}\t{place[1]}\t{optimizer}{whole}\n")
    elif depth and id(type(tensor)) not in inspection.plain and answers_itself(inspection, tensor):
        add_parts(inspection, role, root, path, tensor, optimizer, depth - 1)


def add_parameter(inspection, root, path, parameter, module=None):
    add_tensor(inspection, "parameter", root, path, parameter, whole=split_shape(inspection, module or {}, parameter))
    try:
        # reading .grad of another tensor warns
        gradient = inspection.ask["grad"](parameter) if reads_gradients and inspection.ask["is_leaf"](parameter) else None
        elements = inspection.ask["numel"](parameter)
    except Exception:
        return
    if gradient is not None:
        add_tensor(inspection, "gradient", root, path, gradient)
    inside = attributes(parameter) or {}
    if type(elements) is int and elements == 0:
        add_shards(inspection, root, path, inside)
    for key, part in list(inside.items()):
        if type(key) is str and has_class(part, inspection.tensor_class):
            inspection.kept_for.setdefault(id(part), (root, f"{path}.{text(key)}"))


def add_shards(inspection, root, path, inside):
    """What a library keeps in the attributes of a parameter whose own memory it took: this process's part of it."""
    numbers = {key.rpartition("_")[2]: value for key, value in list(inside.items()) if type(key) is str and type(value) is int}
    place = f"{path}, shard {numbers['rank']} of {numbers['size']}" if "rank" in numbers and "size" in numbers else f"{path}, shard"
    for key, part in list(inside.items()):
        if type(key) is str and has_class(part, inspection.tensor_class):
            add_tensor(inspection, "gradient" if "grad" in key else "parameter", root, place, part, if_new=True)


def add_module(inspection, root, module, path):
    """The module and everything in it, depth first; each module once, under its first path."""
    inside = attributes(module)
    if inside is None or id(module) in inspection.reported:
        return
    inspection.reported.add(id(module))
    name = class_name(module)
    inspection.lines.append(f"M\t{root}\t{id(module)}\t{text(name)}\t{path}\n")
    dot = path + "." if path else ""
    for key, parameter in entries(inside.get("_parameters")):
        if parameter is not None:
            own = dot + text(key_name(key))
            if id(parameter) not in inspection.names:
                inspection.names[id(parameter)] = (root, own)
            add_parameter(inspection, root, own, parameter, inside)
    for key, buffer in entries(inside.get("_buffers")):
        if buffer is not None:
            add_tensor(inspection, "buffer", root, dot + text(key_name(key)), buffer)
    for key, child in entries(inside.get("_modules")):
        if child is not None:
            add_module(inspection, root, child, path if (name, key_name(key)) in TRANSPARENT else dot + text(key_name(key)))


def add_optimizer(inspection, number, optimizer, variables):
    inside = attributes(optimizer)
    if inside is None:
        return
    for index, group in enumerate(items(inside.get("param_groups"))):
        for position, parameter in enumerate(parameters_of(group)):
            if id(parameter) in inspection.names or not has_class(parameter, inspection.tensor_class):
                continue
            known = variables.get(id(parameter))
            path = text(known[1] if known and known[1] else f"optimizer.param_groups.{index}.params.{position}")
            place = inspection.names[id(parameter)] = inspection.kept_for.get(id(parameter), (-1, path))
            add_parameter(inspection, *place, parameter)
    state = Namespace(number=number, seen={id(optimizer)}, owner=optimizer,
                      parameters=[id(parameter) for group in items(inside.get("param_groups")) for parameter in parameters_of(group)])
    for position, (parameter, values) in enumerate(entries(inside.get("state"))):
        place = inspection.names.get(id(parameter))
        if not place and has_class(parameter, inspection.tensor_class):  # one that a wrapper gives to the optimizer for its step
            place = inspection.names[id(parameter)] = (-1, f"optimizer.state.{position}")
            add_parameter(inspection, *place, parameter)
        place = place or (-1, "")
        for key, value in state_parts(inspection, state, values):
            add_state(inspection, state, text(key_name(key)), place, value, 1)
    for key, value in list(inside.items()):
        if type(key) is str and key not in ("state", "param_groups", "defaults"):
            add_state(inspection, state, text(key), (-1, ""), value, 0)


def add_state(inspection, state, role, place, value, level):
    """A tensor, or the tensors in the optimizer's own containers and objects. Others (a parameter, a gradient) have been
    reported already. PLACE: the parameter that it belongs to, if that is known."""
    if id(type(value)) in PLAIN:
        return
    if has_class(value, inspection.tensor_class):
        add_tensor(inspection, f"optimizer_state:{role}", *place, value, state.number, level == 0 or place[0] < 0)
        return
    parts = state_parts(inspection, state, value)
    if level >= STATE_LEVELS or not parts or len(parts) > STATE_ITEMS or id(value) in state.seen:
        return
    state.seen.add(id(value))
    aligned = place == (-1, "") and len(parts) == len(state.parameters) and not has_class(value, dict)
    for index, (key, item) in enumerate(parts):
        owner = state.parameters[index] if aligned else id(key)
        known = inspection.names.get(owner, place)
        shown = role if known != place else f"{role}.{text(key)}" if type(key) is str else item_name(role, key)
        add_state(inspection, state, shown, known, item, level + 1)


def state_parts(inspection, state, value):
    """(key, item) of a container, or of an object made for the state: a dataclass, or an object of a class from the
    optimizer's file that holds no module."""
    if has_class(value, dict):
        return entries(value)
    if has_class(value, list) or has_class(value, tuple):
        return list(enumerate(items(value) if has_class(value, list) else tuple.__getitem__(value, slice(None))))
    inside = attributes(value)
    if not inside or find_class(value, inspection.owners):
        return ()
    files = [type.__getattribute__(type(thing), "__dict__").get("__module__") for thing in (value, state.owner)]
    if not has_method(value, "__dataclass_fields__") and (files[0] != files[1] or has_method(value, "__call__")):
        return ()
    return () if any(find_class(item, inspection.owners) for item in list(inside.values())) else list(inside.items())


def parameters_of(group):
    for key, value in entries(group):
        if type(key) is str and key == "params":
            return items(value)
    return ()


def report_written(inspection):
    """The new part of torch.compile's own map from the lines that it wrote to the user's lines."""
    cache = (attributes(sys.modules.get("torch._inductor.codecache")) or {}).get("PyCodeCache")
    maps = type.__getattribute__(cache, "__dict__").get("linemaps") if type(cache) is type else None
    if type(maps) is not dict:
        return
    for path, columns in list(maps.items())[sum(written):]:
        if type(path) is not str or type(columns) is not list or len(columns) != 2:
            continue
        for line, where in zip(*map(tuple, columns)):
            if type(line) is int and type(where) is str:
                inspection.lines.append(f"W\t{text(path)}\t{line}\t{text(where)}\n")
    written[:] = [len(maps)]


def property_of(module, kind, name, thing):
    """The value of a C++ class's property for THING; None if THING has another class."""
    known = module.get(kind)
    if type(known) is not type(None) and has_class(thing, known):
        return type.__getattribute__(known, "__dict__")[name].__get__(thing)
    return None


def report_group(inspection):
    """The process's rank in the default process group, whatever launched it, and the group's rendezvous."""
    module = attributes(sys.modules.get("torch.distributed.distributed_c10d"))
    own = attributes(sys.modules.get("torch._C._distributed_c10d"))
    group = (attributes((module or {}).get("_world")) or {}).get("_default_pg")
    kind = (own or {}).get("ProcessGroup")
    if group is None or kind is None or not has_class(group, kind):
        return
    functions = type.__getattribute__(kind, "__dict__")
    rank, size = functions["rank"](group), functions["size"](group)
    stores = [store for known, (_, store) in entries(module.get("_pg_map") or {}) if known is group]
    store = stores[0] if stores else None
    while (inner := property_of(own, "PrefixStore", "underlying_store", store)) is not None:
        store = inner
    host, path = property_of(own, "TCPStore", "host", store), property_of(own, "FileStore", "path", store)
    met = f"{host}:{property_of(own, 'TCPStore', 'port', store)}" if host else path or ""
    inspection.lines.append(f"D\t{rank}\t{size}\t{text(met)}\n")


def report_variables(inspection):
    """Launchers' variables as they are now: the program, or Ray in it, may have set them since it started."""
    names = (attributes((attributes(sys.modules.get("os")) or {}).get("environ")) or {}).get("_data")
    for name in LAUNCH if type(names) is dict else ():
        value = dict.get(names, name)
        if type(value) is bytes and len(value) < VALUE_BYTES:
            inspection.lines.append(f"V\t{name.decode()}\t{text(value.decode('utf-8', 'replace'))}\n")


def report_torch(inspection, variables, torch, started_ns, handled):
    """Returns None; or "expensive NANOSECONDS", an estimate, if there is a budget and it runs out before the end."""
    finder = find_objects(variables, torch, handled)
    inspection.owners = finder.owners
    found, walked = find_roots(finder)
    found_ns = processor_ns()
    try:
        report_all(inspection, finder, found)
    except TooExpensive:
        parts = max(2, len(walked) / max(1, len(inspection.reported)))
        return f"expensive {int(found_ns - started_ns + (processor_ns() - found_ns) * parts)}"
    report_written(inspection)
    try:
        report_group(inspection)
    except Exception:  # another version
        pass
    return None


def make_report(variables, torch, kinds, started_ns, budget_ns, census_ns, handled, context):
    """The lines, or what report_torch returns. TORCH: None if it is not imported; KINDS: of arrays (arrays.py)."""
    inspection = make_inspection(torch, budget_ns and started_ns + budget_ns)
    inspection.lines.append(f"G\t{collections(0)}\t{collections(1)}\t{collections(2)}\n")
    report_variables(inspection)
    expensive = torch and report_torch(inspection, variables, torch, started_ns, handled)
    if expensive:
        return expensive
    if census_ns:
        began_ns = processor_ns()
        until_ns = min(began_ns + census_ns, inspection.deadline_ns or began_ns + census_ns)
        take_census(variables, torch, kinds, inspection, max(until_ns, began_ns + LEAST_NS), handled, context)
    return "".join(inspection.lines) + f"P\t{processor_ns() - started_ns}\n"


def report_all(inspection, finder, found):
    for number, root in found:
        inspection.lines.append(f"R\t{number}\t{id(root)}\t{text(class_name(root))}\t{text(root_holders[number])}\n")
        add_module(inspection, number, root, "")
    for optimizer, holder in list(finder.optimizers.values()):
        take_optimizers(finder, holder, optimizer)
    known = {id(optimizer) for _, optimizer in alive_objects(optimizers)}
    for identity, (optimizer, holder) in finder.optimizers.items():
        if identity not in known:
            remember_object(optimizers, optimizer_holders, optimizer, holder)
    for number, optimizer in alive_objects(optimizers):
        kind, holder = text(class_name(optimizer)), text(optimizer_holders[number])
        inspection.lines.append(f"O\t{number}\t{id(optimizer)}\t{kind}\t{holder}\n")
        add_optimizer(inspection, number, optimizer, finder.tensors)


def inspect_at_exit(function):
    """Registers the function to be called when the program exits."""
    sys.modules["atexit"].register(function)


def inspect(variables, started_ns, budget_ns, census_ns, handled=None, context=None):
    """Times are this thread's CPU time, as a busy machine makes any inspection wait. All may take budget_ns from started_ns on (0 = no
    limit), the census census_ns (0 = no census)."""
    torch, kinds = sys.modules.get("torch"), find_kinds()
    if "torch.nn.modules.module" not in sys.modules or "_C" not in (attributes(torch) or {}):
        return make_report(variables, None, kinds, started_ns, budget_ns, census_ns, handled, context) if kinds else ""
    with torch._C.DisableTorchFunction():
        return make_report(variables, torch, kinds, started_ns, budget_ns, census_ns, handled, context)
