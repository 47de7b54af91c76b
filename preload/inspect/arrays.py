# Arrays of libraries other than PyTorch: their classes, their memory, and the path by which a program holds one, written as
# jax.tree_util.keystr does after the name of a variable: opt_state[0].mu['layers'][0]['w'].
#
# Run like inspect.py, in the same namespace.

BUFFER_FIELDS = 3  # address, bytes and device of each buffer
PATH_ITEMS_MAXIMUM = 1 << 16  # per container on a path
VARIABLES = {"local", "global", "cell", "default"}  # kinds of census steps at which a path begins
PROPERTY_FUNCTION = property.__dict__["fget"]
GETTER = type(FUNCTION.__dict__["__code__"])
METHOD_OF_C = type(list.__dict__["append"])
AS_ATTRIBUTES = "."  # the next key is written as an attribute
RENAMED = {  # attributes that the libraries' own paths write differently: (class, attribute): step
    ("Variable", "_raw_value"): ".value", ("State", "_mapping"): "", ("FrozenDict", "_dict"): "",
    ("Layer", "_sub_layers"): AS_ATTRIBUTES, ("Layer", "_parameters"): AS_ATTRIBUTES, ("Layer", "_buffers"): AS_ATTRIBUTES,
    ("Optimizer", "_accumulators"): "",
}
# The role (format.h) of arrays in objects of these classes: (package, end of the class's name, attribute, "" = any, role).
# The object nearest to the array decides, then the first line.
ROLES = (
    ("optax", "MultiStepsState", ".acc_grads", "gradient"),
    ("optax", "State", "", "optimizer_state"),
    ("flax", "OptVariable", "", "optimizer_state"),
    ("flax", "OptArray", "", "optimizer_state"),
    ("flax", "OptState", "", "optimizer_state"),
    ("flax", "Param", ".value", "parameter"),
    ("flax", "BatchStat", ".value", "buffer"),
    ("flax", "TrainState", ".params", "parameter"),
    ("flax", "TrainState", ".opt_state", "optimizer_state"),
    ("paddle", "Layer", AS_ATTRIBUTES, "buffer"),  # not a parameter by its class
    ("paddle", "Optimizer", "", "optimizer_state"),
)


def read_property(thing, name, kind):
    """The value of a C class's property; None if the program has replaced it."""
    descriptor = defined(kind, name)
    return descriptor.__get__(thing) if type(descriptor) is GETTER or type(descriptor) is SLOT else None


def call_method(thing, name, kind):
    """The same for a method without arguments."""
    method = defined(kind, name)
    return method(thing) if type(method) is METHOD_OF_C else None


def dtype_of(dtype):
    """(name, bytes of an element) of numpy's; ("", 0) of another."""
    kind = (attributes(sys.modules.get("numpy")) or {}).get("dtype")
    if not has_class(kind, type) or not has_class(dtype, kind):
        return "", 0
    scalar, element = read_property(dtype, "type", kind), read_property(dtype, "itemsize", kind)
    return (type.__getattribute__(scalar, "__name__") if has_class(scalar, type) else ""), element or 0


def shape_of(extents):
    """(as text, number of elements)"""
    elements = 1
    for extent in extents:
        elements *= extent
    return "x".join(map(str, extents)), elements


def by_nanobind(function):
    return class_name(function) in ("nb_method", "nb_func")


def nanobind_property(thing, name, kind):
    """The value of a nanobind class's property; None if there is none, or the program has replaced it."""
    described = defined(kind, name)
    function = PROPERTY_FUNCTION.__get__(described) if type(described) is property else None
    return function(thing) if by_nanobind(function) else None


def device_count(array, kind):
    sharding = nanobind_property(array, "_sharding", kind)
    devices = nanobind_property(sharding, "_internal_device_list", type(sharding))
    count = type.__getattribute__(type(devices), "__dict__").get("__len__")
    return count(devices) if by_nanobind(count) else 1


# Each of these returns, for each part of an array that is in a device's memory: (fields of a line from data_address to
# device_index, shape of the whole array if this is only a part, role if the array itself says).

def jax_places(array, kind):
    question = type.__getattribute__(kind, "__dict__").get("is_deleted")
    found = buffers(question, array, device_count(array, kind)) if by_nanobind(question) else ()
    described = nanobind_property(array, "aval", kind) if found else None
    extents, dtype = slot(described, "shape"), slot(described, "dtype")
    whole, elements = shape_of(extents) if type(extents) is tuple else ("", -1)
    dtype, element = dtype_of(dtype)
    whole_bytes, places = elements * element, []
    for address, size, device in zip(found[::BUFFER_FIELDS], found[1::BUFFER_FIELDS], found[2::BUFFER_FIELDS]):
        shape = whole if size == whole_bytes else ""
        places.append((f"{address}\t{size}\t{address}\t{size}\t{dtype}\t{shape}\t{device}", "" if shape == whole else whole, ""))
    return places


def cupy_places(array, kind):
    pointer = read_property(array, "data", kind)
    memory = read_property(pointer, "mem", type(pointer))
    extents, size = read_property(array, "shape", kind), read_property(array, "nbytes", kind)
    address = read_property(pointer, "ptr", type(pointer))
    start, all_bytes, device = (read_property(memory, name, type(memory)) for name in ("ptr", "size", "device_id"))
    if not (type(extents) is tuple and size and address and start and all_bytes) or type(device) is not int:
        return ()
    dtype, _ = dtype_of(read_property(array, "dtype", kind))
    return [(f"{address}\t{size}\t{start}\t{all_bytes}\t{dtype}\t{shape_of(extents)[0]}\t{device}", "", "")]


def paddle_place(tensor, kind, role):
    """For a tensor that begins where a block does."""
    address, extents = call_method(tensor, "data_ptr", kind), read_property(tensor, "shape", kind)
    found = block(address) if type(address) is int and address else ()
    if not found or not has_class(extents, list):
        return []
    start, all_bytes, device = found
    shape, elements = shape_of(items(extents))
    size = elements * (call_method(tensor, "element_size", kind) or 0)
    dtype = read_property(tensor, "dtype", kind)
    name = type.__getattribute__(type(dtype), "__dict__").get("name")
    said = PROPERTY_FUNCTION.__get__(name) if type(name) is property else None
    dtype = said(dtype).lower() if class_name(said) == "instancemethod" else ""
    return [(f"{address}\t{size}\t{start}\t{all_bytes}\t{dtype}\t{shape}\t{device}", "", role)] if 0 < size <= all_bytes else []


def paddle_places(tensor, kind):
    """A parameter's gradient has the parameter's path."""
    parameter = (attributes(sys.modules.get("paddle.base.framework")) or {}).get("EagerParamBase")
    if not has_class(tensor, parameter):
        return paddle_place(tensor, kind, "")
    gradient = call_method(tensor, "_grad_ivar", kind)
    return paddle_place(tensor, kind, "parameter") + (paddle_place(gradient, kind, "gradient") if has_class(gradient, kind) else [])


ARRAYS = (  # module, class, function that finds the memory of such an array
    ("jax._src.array", "ArrayImpl", jax_places),
    ("cupy._core.core", "_ndarray_base", cupy_places),
    ("cupy", "ndarray", cupy_places),
    ("paddle", "Tensor", paddle_places),
)


def find_kinds():
    """By id of an array class: (the class, the function that finds its memory)"""
    kinds = {}
    for module, name, places in ARRAYS:
        kind = (attributes(sys.modules.get(module)) or {}).get(name)
        if has_class(kind, type):
            kinds[id(kind)] = kind, places
    return kinds


def array_folders():
    """Whether it is a library's: what a function there holds, it holds only for a moment."""
    paths = [(attributes(sys.modules.get(module.partition(".")[0])) or {}).get("__file__") for module, _, _ in ARRAYS]
    return tuple(path.rpartition("/")[0] + "/" for path in paths if type(path) is str and "/" in path)


def array_places(kinds, thing):
    for parent in type.__getattribute__(type(thing), "__mro__"):
        if id(parent) in kinds:
            kind, places = kinds[id(parent)]
            try:
                return places(thing, kind)
            except Exception:  # another version
                return ()
    return ()


# ---- paths ----

def key_text(key):
    return f"[{str.__str__(key)!r}]" if has_class(key, str) else f"[{key!r}]" if type(key) is int else None


def fields_of(kind):
    """The fields of a named tuple."""
    for parent in type.__getattribute__(kind, "__mro__"):
        fields = type.__getattribute__(parent, "__dict__").get("_fields")
        if type(fields) is tuple:
            return fields
    return ()


def attribute_step(kind, name):
    if name.isdecimal():  # an item of a list that is an object: flax.nnx.List
        return f"[{name}]"
    for parent in type.__getattribute__(kind, "__mro__"):
        step = RENAMED.get((type.__getattribute__(parent, "__name__"), name))
        if step is not None:
            return step
    return f".{name}"


def steps_of(census, thing):
    """By id of what THING holds: the step to it, None if it cannot be written."""
    kind, steps = type(thing), {}

    def add(found):
        for step, value in found:
            steps.setdefault(id(value), step)

    if has_class(thing, dict) and dict.__len__(thing) <= PATH_ITEMS_MAXIMUM:
        add((key_text(key), value) for key, value in entries(thing))
    elif has_class(thing, list) and list.__len__(thing) <= PATH_ITEMS_MAXIMUM:
        add((f"[{index}]", value) for index, value in enumerate(items(thing)))
    elif has_class(thing, tuple) and tuple.__len__(thing) <= PATH_ITEMS_MAXIMUM:
        names = fields_of(kind)
        add((f".{names[index]}" if names else f"[{index}]", value) for index, value in enumerate(tuple.__iter__(thing)))
    for name, value in entries(attributes(thing) or {}):
        if type(name) is str:
            add([(attribute_step(kind, name), value)])
    for name, descriptor in slots_of(census, kind):
        try:
            add([(attribute_step(kind, name), descriptor.__get__(thing))])
        except AttributeError:  # not set
            pass
    return steps


def role_in(thing, step):
    for parent in type.__getattribute__(type(thing), "__mro__"):
        home, name = type.__getattribute__(parent, "__dict__").get("__module__"), type.__getattribute__(parent, "__name__")
        for package, end, attribute, role in ROLES:
            if type(home) is str and home.startswith(package + ".") and name.endswith(end) and attribute in ("", step):
                return role
    return ""


def first_key(path):
    """The first key of a path, if it is text; else "" """
    return path[2:path.find("']")] if path.startswith("['") else ""


def path_of(census, index):
    """(path from a variable, role) of an array; ("", "") if it has none. Reads what the census has noted."""
    path = role = key = ""
    while index not in census.temporary:
        thing, parent, kind, name, where = census.queue[index]
        if kind in VARIABLES or parent < 0:
            start = name if kind in VARIABLES else f"{where}.{name}" if kind == "attribute" and name else ""
            return (start + path, f"{role}:{key}" if key else role) if start else ("", "")
        holder = census.queue[parent][0]
        if parent not in census.steps:
            census.steps[parent] = steps_of(census, holder)
        step = census.steps[parent].get(id(thing))
        if step is None:
            return "", ""
        found = role_in(holder, step)
        role = role or found
        if role == found == "optimizer_state" and not key:
            key = step[1:] if has_class(holder, tuple) else first_key(path) if not step else ""
        path = f".{first_key(path)}{path[len(first_key(path)) + 4:]}" if step == AS_ATTRIBUTES and first_key(path) else step + path
        index = parent
    return "", ""


def report_array(census, lines, places, holder, index):
    """HOLDER: kind, holder and way, as text; INDEX: -1 if no name reaches it."""
    path, role = path_of(census, index) if index >= 0 else ("", "")
    for place, whole, own_role in places:
        if path:
            lines.append(f"A\t{own_role or role}\t-1\t{text(path)}\t{place}\t\t{whole}\n")
        lines.append(f"H\t{holder}\t{place}\t\t\n")
