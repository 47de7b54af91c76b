"""Reads the data of a page that `vramtrace html` made, by docs/page.md alone."""
import base64
import bisect
import json
import re
import zlib

MARKS = ("vramtrace-page", "vramtrace-data")
NEVER = None


def scripts(page):
    """The texts of the page's two data scripts, cut as a browser cuts them: at the first end tag."""
    found = {}
    for name in MARKS:
        starts = list(re.finditer(rf'<script type="[a-z/]+" id="{name}">', page))
        assert len(starts) == 1, f"{len(starts)} scripts called {name}"
        rest = page[starts[0].end():]
        found[name] = rest[:re.search(r"</script", rest, re.I).start()]
    return found


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield value
            value = shift = 0
    assert shift == 0, "a number is cut"


def deltas(numbers):
    value = 0
    for number in numbers:
        value += (number >> 1) ^ -(number & 1)
        yield value


def predicted(numbers, classes=None):
    """`classes` None: the column is the classes themselves."""
    slots, values = {}, []
    known = values if classes is None else classes
    for i, number in enumerate(numbers):
        h = 0
        newest = i - 1 if classes is None else i
        for k in range(4):
            h = (h * 31 + (known[newest - k] if newest >= k else 0)) & 0xFFFFFFFF
        slot = ((h * 2654435761) & 0xFFFFFFFF) >> 16
        if number:
            slots[slot] = number - 1
        values.append(slots.get(slot, 0))
    return values


class Holes:
    """The free pieces of segments, as the writer keeps them: at most 4,096."""

    def __init__(self):
        self.holes = []  # (start, end, segment, pool)

    def give(self, segment, pool, start, size):
        end = start + size
        for hole in [hole for hole in self.holes if hole[2] == segment and (hole[1] == start or hole[0] == end)]:
            self.holes.remove(hole)
            start, end = min(start, hole[0]), max(end, hole[1])
        self.insert((start, end, segment, pool))

    def insert(self, hole):
        if len(self.holes) < 4096:
            bisect.insort(self.holes, hole)

    def take(self, start, size):
        """The segment that the piece is of, or None."""
        at = bisect.bisect_right(self.holes, start, key=lambda hole: hole[0]) - 1
        if at < 0 or self.holes[at][1] < start + size:
            return None
        low, high, segment, pool = self.holes.pop(at)
        if low < start:
            self.insert((low, start, segment, pool))
        if start + size < high:
            self.insert((start + size, high, segment, pool))
        return segment

    def drop(self, segment):
        self.holes = [hole for hole in self.holes if hole[2] != segment]

    def guess(self, pool, size):
        fits = [(end - start, start) for start, end, _, of in self.holes if of == pool and end - start >= size]
        return min(fits)[1] if fits else None


def placed(numbers, allocations, places):
    """Addresses / 256 of allocations that have begin, end, klass and bytes."""
    ends = sorted((a["end"], i) for i, a in enumerate(allocations) if a["end"] is not NEVER)
    holes, slots, homes, values, ended = Holes(), {}, {}, [], 0

    def units(i):
        return -(-allocations[i]["bytes"] // 256)

    def pool(i):
        place, size = places[allocations[i]["klass"]], allocations[i]["bytes"]
        return (place - 1) // 2, size == 2 << 20 if place % 2 == 0 else size <= 1 << 20

    for i, (number, allocation) in enumerate(zip(numbers, allocations)):
        while ended < len(ends) and ends[ended][0] <= allocation["begin"]:
            end, gone = ends[ended]
            ended += 1
            place, home = places[allocations[gone]["klass"]], homes.pop(gone, None)
            if place and place % 2 == 0:
                holes.drop(gone)
            if home is not None and (allocations[home]["end"] is NEVER or allocations[home]["end"] > end):
                holes.give(home, pool(home), values[gone], units(gone))
        h = 0
        for k in range(4):
            h = (h * 31 + (allocations[i - k]["klass"] if i >= k else 0)) & 0xFFFFFFFF
        slot = ((h * 2654435761) & 0xFFFFFFFF) >> 16
        place = places[allocation["klass"]]
        guess = holes.guess(pool(i), units(i)) if place % 2 else None
        value = number - 1 if number else slots.get(slot, 0) if guess is None else guess
        slots[slot] = value
        values.append(value)
        if place % 2:
            homes[i] = holes.take(value, units(i))
        elif place:
            holes.give(i, pool(i), value, units(i))
    return values


class Trace:
    def __init__(self, head, data, whole=True):
        self.head, self.data = head, data
        if not whole:
            return
        self.names = self.document("names")
        self.events, self.times = self.changes()
        self.allocations = self.read_allocations()

    def alive(self, change):
        return [allocation for allocation in self.allocations
                if allocation["begin"] <= change and (allocation["end"] is NEVER or allocation["end"] > change)]

    def change_at(self, event):
        """The last change at or before an event; -1 = none."""
        return bisect.bisect_right(self.events, event) - 1

    def text(self, number):
        return self.names["strings"][number]

    def frames(self, stack):
        """(function, file, line) of each frame of a stack, innermost first."""
        return [(self.text(function), self.text(file), line)
                for _, function, file, line, _, _ in (self.names["frames"][frame] for frame in self.names["stacks"][stack])]

    def phases(self):
        """(first event, phase, step, time) of each run of a phase."""
        columns = [self.column(name) for name in ("phase_first_event", "phase_kind", "phase_step", "phase_t")]
        return [(event, self.head["phases"][kind], step, t_ns) for event, kind, step, t_ns in zip(*columns)]

    def inflated(self, name):
        blob = self.head["blobs"][name]
        raw = zlib.decompress(self.data[blob["offset"]:blob["offset"] + blob["bytes"]], wbits=-15)
        assert len(raw) == blob["raw_bytes"]
        return blob, raw

    def document(self, name):
        blob, raw = self.inflated(name)
        assert blob["encoding"] == "json"
        return json.loads(raw.decode())

    def column(self, name, classes=None):
        blob, raw = self.inflated(name)
        numbers = list(varints(raw))
        assert len(numbers) == blob["count"]
        if blob["encoding"] == "deltas":
            return list(deltas(numbers))
        return predicted(numbers, classes) if blob["encoding"] == "predicted" else numbers

    def changes(self):
        """(event, time) of each change."""
        events, event = [], -1
        for gap in self.column("change_event"):
            event += gap + 1
            events.append(event)
        times, tick = [], 0
        for gap in self.column("change_time"):
            tick += gap
            times.append(tick * self.head["tick_ns"])
        return events, times

    def read_allocations(self):
        """Each as {begin, end (changes; None = never), klass, bytes, address}."""
        classes = self.column("class")
        sizes = self.column("sizes")
        size, life = (self.column(name, classes) for name in ("size", "life"))
        begin, found = 0, []
        for i, gap in enumerate(self.column("begin")):
            begin += gap
            found.append({"begin": begin, "end": begin + life[i] if life[i] else NEVER, "klass": classes[i],
                          "bytes": sizes[size[i]]})
        for allocation, address in zip(found, placed(self.column("address"), found, self.column("place"))):
            allocation["address"] = address * 256
        return found


def read(path):
    """(HEAD, traces)"""
    texts = scripts(path.read_text(encoding="utf-8"))
    head = json.loads(texts[MARKS[0]])
    data = base64.b64decode(texts[MARKS[1]], validate=True)
    return head, [Trace(trace, data) for trace in head["traces"]]


def sums_at(trace, change, device):
    """Bytes by category of a device just after a change (-1 = before the first), and what the driver gave."""
    names = [category["name"] for category in trace.head["categories"]]
    categories, driver = dict.fromkeys(names, 0), 0
    classes = trace.names["classes"]
    for allocation in trace.alive(change):
        of, _, category, *_ = classes[allocation["klass"]]
        counted, cached, given = classes[allocation["klass"]][12:15]
        if of not in (device, -1):
            continue
        categories[names[category]] += counted * allocation["bytes"]
        categories["cached"] += cached * allocation["bytes"]
        driver += given * allocation["bytes"]
    return categories, driver


def kind_bytes(trace, change, device, kind):
    """Bytes of what is of one kind, counted or not."""
    classes, kinds = trace.names["classes"], trace.head["kinds"]
    return sum(allocation["bytes"] for allocation in trace.alive(change)
               if classes[allocation["klass"]][0] == device and kinds[classes[allocation["klass"]][1]] == kind)
