# Reads the host's objects unnoticed: their classes, attributes and items, without running code of theirs.
#
# Run like inspect.py, in the same namespace, before the others.

# By id, since a metaclass may define equality.
PLAIN = {id(kind) for kind in (type(None), int, float, bool, str, bytes, complex, type, MODULE, type(len), FUNCTION)}
SLOT = type(MODULE.__dict__["__dict__"])
OWN_DICT = {id(SLOT), id(type(FUNCTION.__dict__["__code__"]))}  # made by the interpreter
CONTAINERS = {id(list), id(tuple), id(dict)}
Namespace = type(sys.implementation)


def attributes(thing):
    """The object's own dict or a copy of it; None if its class defines `__dict__` itself."""
    try:
        for parent in type.__getattribute__(type(thing), "__mro__"):
            descriptor = type.__getattribute__(parent, "__dict__").get("__dict__")
            if descriptor is not None:
                found = (own_attributes(thing) or {}) if id(type(descriptor)) in OWN_DICT else None
                return found if type(found) is dict else None
    except Exception:
        pass
    return None


def defined(kind, name):
    """What a class or the first of its parents defines under that name, or None."""
    for parent in type.__getattribute__(kind, "__mro__"):
        found = type.__getattribute__(parent, "__dict__").get(name)
        if found is not None:
            return found
    return None


def slot(thing, name):
    """The value in the slot of that name, or None."""
    descriptor = defined(type(thing), name)
    return descriptor.__get__(thing) if type(descriptor) is SLOT else None


def class_name(thing):
    return type.__getattribute__(type(thing), "__name__")


def has_class(thing, wanted):
    """isinstance, without calling code of the object or its class."""
    for parent in type.__getattribute__(type(thing), "__mro__"):
        if parent is wanted:
            return True
    return False


def entries(thing):
    """The items of a dict, even if its class overrides them."""
    if not has_class(thing, dict):  # torch.jit's
        thing = (attributes(thing) or {}).get("_python_modules")
    return list(dict.items(thing)) if has_class(thing, dict) else ()


def items(thing):
    return list.__getitem__(thing, slice(None)) if has_class(thing, list) else thing if type(thing) is tuple else ()


def key_name(key):
    return str.__str__(key) if has_class(key, str) else repr(key) if type(key) is int else ""


def item_name(name, key):
    return f"{name}[{key!r}]" if type(key) is str or type(key) is int else name


def find_class(thing, wanted):
    """The first of its classes that is in WANTED, by id; or None."""
    for parent in type.__getattribute__(type(thing), "__mro__"):
        if id(parent) in wanted:
            return id(parent)
    return None


def has_method(thing, name):
    for parent in type.__getattribute__(type(thing), "__mro__"):
        if name in type.__getattribute__(parent, "__dict__"):
            return True
    return False


def text(value):
    if value.isascii() and value.isprintable() and "\\" not in value:
        return value
    if "\\" in value or not value.isprintable():
        value = value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return value.encode("utf-8", "replace").decode()
