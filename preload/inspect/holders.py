# What the census reports: for each tensor or array that it found, the name that holds it and the way from there; for those
# that no name reaches, the cycle that they are in.
#
# Run like inspect.py, in the same namespace.

TENSORS_MAXIMUM = 4096
NODES_MAXIMUM = 4096  # per tensor's autograd graph
CYCLE_OBJECTS_MAXIMUM = 2000  # visited per holder
UNREACHED_MAXIMUM, LEVELS_MAXIMUM = 1024, 8  # tensors whose holders are searched for; how many levels of holders
YOUNG_GENERATIONS, ALL_GENERATIONS = 2, 3  # of the collector; the young ones take little time
YOUNG_GENERATIONS_NS, OLD_GENERATION_NS = 50_000_000, 100_000_000  # time that must be left to search these too
REPORT_EVERY = 16  # tensors reported between two looks at the clock
UNNAMED = ("key", "method", "function", "item")
SERIES = 3  # this many attributes that differ only in a number are a series: feature_0, feature_1, …
FEW_KEYS = 8  # in a dict with more keys, a key with a number in it says no more than the dict


def name_pattern(name):
    """feature_12 → feature_*"""
    shown = ""
    for letter in name:
        shown += letter if letter not in "0123456789" else "" if shown.endswith("*") else "*"
    return shown


def keyed_name(census, index):
    """(kind, name, where) of a container that is the value of a key: "history['outputs']"; None if it has none."""
    keys, thing = "", census.queue[index][0]
    if not is_container(census, thing):
        return None
    while index >= 0 and census.queue[index][2] == "key":
        _, parent, _, name, _ = census.queue[index]
        if not name or len(census.queue[parent][0]) > FEW_KEYS and name_pattern(name) != name:
            return None
        keys, index = f"['{name}']{keys}", parent
    kind, name, where = census.queue[index][2:]
    return (kind, name + keys, where) if name and kind not in UNNAMED else None


def nearest_named(census, index):
    """The nearest object on the way that has a name of its own: its index, kind, name, where."""
    while True:
        _, parent, kind, name, where = census.queue[index]
        shown = keyed_name(census, index) if kind == "key" else (kind, name, where) if name and kind not in UNNAMED else None
        if shown is not None or parent < 0:
            return (index, *(shown or (kind, name, where)))
        index = parent


def find_shared(census):
    """Attributes that hold tensors in several objects: their common holder is not the attribute, but what holds the objects."""
    first, walked = {}, set()
    for index in census.found[:TENSORS_MAXIMUM] + census.roots[:TENSORS_MAXIMUM]:
        while index >= 0 and index not in walked:
            walked.add(index)
            _, parent, kind, name, where = census.queue[index]
            if kind == "attribute" and first.setdefault((name, where), index) != index:
                census.shared.add((name, where))
            elif kind == "attribute" and name_pattern(name) != name:
                census.series[name_pattern(name), where] = census.series.get((name_pattern(name), where), 0) + 1
            index = parent


def holder_of(census, index):
    """Its object, kind, name, where, and the index on the way."""
    at, kind, name, where = nearest_named(census, index)
    best = at, kind, name, where
    while kind == "attribute" and (name, where) in census.shared:
        parent = census.queue[at][1]
        # layers of a model have the same attributes
        if parent < 0 or census.module_class and has_class(census.queue[parent][0], census.module_class):
            return census.queue[best[0]][0], *best[1:]
        at, kind, name, where = nearest_named(census, parent)
        if name and kind not in UNNAMED:
            best = at, kind, name, where
    return census.queue[best[0]][0], *best[1:]


def is_container(census, thing):
    return id(type(thing)) in census.sized


def describe(census, index):
    """(kind, holder, all steps from the tensor to a name)"""
    named, steps = holder_of(census, index), []
    while index >= 0:
        thing, parent, kind, name, where = census.queue[index]
        steps.append((thing, kind, name, where))
        index = parent
    way = " < ".join(filter(None, (step_text(census, *each) for each in steps)))
    holder = step_text(census, *named)
    for _, kind, _, where in steps:
        if kind == "traceback":
            return "traceback", f"traceback of {where.partition(chr(9))[2]}, {holder}", way
    _, kind, name, where = named
    series = census.series.get((name_pattern(name), where), 0) if kind == "attribute" else 0
    if series >= SERIES:
        holder = f"attributes {name_pattern(name)} of {where}, {series} items"
    return named[1], holder, way


def step_text(census, thing, kind, name, where):
    size = what = tail = ""
    if is_container(census, thing):
        size, what = f", {len(thing)} item{'s' if len(thing) != 1 else ''}", class_name(thing)
        tail = f", {what}{size}"
    if kind == "local":
        return f"{what or 'local'} '{name}' of {where}(){size}"
    if kind == "global":
        return f"{what or 'variable'} '{name}' in {where}{size}"
    if kind == "attribute":
        return f"{what or 'attribute'} {where}.{name}{size}"
    if kind == "cell":
        return f"closure cell '{name}' of {where}{tail}"
    if kind == "default":
        return f"default '{name}' of {where}(){tail}"
    if kind == "cache":
        return f"cache of {name}(){size}"
    if kind == "context":
        return f"context variable '{name}'{tail}"
    if kind == "traceback":
        return f"local '{name}' of {where.partition(chr(9))[0]}(){size}"
    if kind == "key":
        return f"key '{name}'" if name else ""
    return f"exception {name}" if kind == "exception" else ""


def graph_of(census, tensor):
    """The name of the node that made the tensor or takes its gradient; and the numbers of the nodes that its graph keeps, as ranges."""
    node = census.ask["grad_fn"](tensor)
    if node is None:
        return "AccumulateGrad" if census.ask["requires_grad"](tensor) else "", ""
    numbers, waiting, seen = [], [node], {node}
    for count, current in enumerate(waiting):
        if count == NODES_MAXIMUM or count % CHECK_EVERY == CHECK_EVERY - 1 and is_late(census):
            break
        number = current._sequence_nr()
        if number < 1 << 62:  # a leaf's node has no number
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


def own_tensors(owner):
    """Of a module, or of an optimizer, each with its own name; and the modules in it."""
    inside = attributes(owner) or {}
    kept = [value for name in ("_parameters", "_buffers") for _, value in entries(inside.get(name))]
    for _, state in entries(inside.get("state")):
        kept += [value for _, value in entries(state)]
    return kept, [child for _, child in entries(inside.get("_modules")) if child is not None]


def report_models(census, lines):
    """Models and optimizers that one name holds several of: the names of their tensors do not say who keeps them."""
    holders, counts = [], {}
    for index in census.roots:
        kind, holder, way = describe(census, index)
        holders.append((census.queue[index][0], kind, holder, way))
        counts[holder] = counts.get(holder, 0) + 1
    for owner, kind, holder, way in holders:
        waiting = [owner] if counts[holder] >= SERIES else []
        for part in waiting:
            tensors, children = own_tensors(part)
            for tensor in tensors:
                if has_class(tensor, census.inspection.tensor_class) and not is_late(census):
                    report_holder(census, lines, tensor, kind, holder, way, True)
            waiting += children


def report_census(census, lines):
    find_shared(census)
    for count, index in enumerate(census.found[:TENSORS_MAXIMUM]):
        tensor = census.queue[index][0]
        if count % REPORT_EVERY == 0 and is_late(census):
            break
        if id(tensor) in census.inspection.names:  # a parameter
            continue
        kind, holder, way = describe(census, index)
        report_holder(census, lines, tensor, kind, holder, way, index=index)
    report_models(census, lines)


def report_holder(census, lines, tensor, kind, holder, way, is_named=False, index=-1):
    if find_class(tensor, census.kinds):
        places = array_places(census.kinds, tensor)
        report_array(census, lines, places, f"{kind}\t{text(holder)}\t{text(way)}", index)
        return
    place = place_of(census.inspection, tensor)
    try:
        if place and (is_named or place[0] not in census.inspection.addresses or census.ask["grad_fn"](tensor) is not None):
            name, ranges = graph_of(census, tensor)
            lines.append(f"H\t{kind}\t{text(holder)}\t{text(way)}\t{place[1]}\t{name}\t{ranges}\n")
    except Exception:  # another thread is freeing the graph
        return


def parts_of(thing):
    """What an object refers to; for a function without its module's globals."""
    if type(thing) is FUNCTION:
        _, _, closure, defaults, _, inside = function_parts(thing)
        return [part for part in (closure, defaults, inside) if part]
    return referents(thing)


def cycle_of(census, thing):
    """The classes on a way from the object back to itself, or None. An object's dict counts as the object, which starts
    the way: whether it has a dict yet does not depend on the program."""
    parents, waiting = [-1], [thing]
    seen = {id(thing), id(parents), id(waiting)}
    for index, current in enumerate(waiting):
        for part in bounded(census, parts_of(current)):
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


def report_unreached(census, lines):
    """Tensors that no name reaches: in a cycle that waits for the collector, or held by C. Returns whether all were searched."""
    left_ns = census.deadline_ns - processor_ns()
    if left_ns < YOUNG_GENERATIONS_NS:
        return False
    old = left_ns > OLD_GENERATION_NS
    plain = SEARCHED_PLAIN | {id(FRAME)}
    tensors, held, holders, holder_of = [], [], [], {}  # in order: what holds each tensor, or holds its holder; holder_of: by id
    own = {id(tensors), id(held), id(holders), id(holder_of)}

    def search(function):  # gc_lists.h
        generations = ALL_GENERATIONS if old else YOUNG_GENERATIONS
        return function(census.classes, census.seen, plain, generations, census.deadline_ns, held, holders)

    try:
        if not search(find_unreached):
            return False
        held[UNREACHED_MAXIMUM:] = []
        tensors[:] = held
        for _ in range(LEVELS_MAXIMUM):
            if not held or not search(find_holders):
                break
            for part, holder in zip(holders[::2], holders[1::2]):
                if id(holder) not in own and id(holder) not in census.seen:
                    holder_of.setdefault(id(part), holder)
            holders.clear()
            report_cycles(census, lines, tensors, held, holder_of)
            holder_of.clear()
        return old
    finally:  # lists of all objects hold themselves
        tensors.clear(), held.clear(), holders.clear(), holder_of.clear()


def report_cycles(census, lines, tensors, held, holder_of):
    """Drops those whose holders are in no cycle, and replaces others by their holders."""
    cycles, rest = {}, []
    for tensor, part in zip(tensors, held):
        holder = holder_of.get(id(part))
        if holder is None or is_late(census):
            continue
        if id(holder) not in cycles:
            cycles[id(holder)] = cycle_of(census, holder)
        names = cycles[id(holder)]
        if names:
            loop = "reference cycle " + " -> ".join(names + names[:1])
            report_holder(census, lines, tensor, "cycle", loop, loop, True)
        else:
            rest += tensor, holder
    tensors[:], held[:] = rest[::2], rest[1::2]
