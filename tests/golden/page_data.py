"""Reads the data of a page that `vramtrace html` made, by docs/page.md alone."""
import base64
import bisect
import itertools
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


class Trace:
    def __init__(self, head, data, whole=True):
        self.head, self.data = head, data
        if not whole:
            return
        self.strings = self.document("strings")
        self.classes = self.table("classes")
        self.tensors = self.table("tensors")
        frames = {frame["frame"]: frame for frame in self.table("frames")}
        self.stacks = {}
        for row in self.table("stacks"):
            self.stacks.setdefault(row["stack"], []).append(frames[row["frame"]])
        changes = self.table("changes")
        self.events = [change["event"] for change in changes]
        self.times = [change["tick"] * head["tick_ns"] for change in changes]
        # Of many marks there is a table, in place of the head's list.
        self.marks = self.table("marks") if "marks" in head["blobs"] else head["marks"]
        self.allocations = [{"begin": row["begin"], "end": row["begin"] + row["life"] if row["life"] else NEVER, "klass": row["class"],
                             "bytes": row["bytes"], "address": row["address"]} for row in self.table("allocations")]

    def alive(self, change):
        return [allocation for allocation in self.allocations
                if allocation["begin"] <= change and (allocation["end"] is NEVER or allocation["end"] > change)]

    def change_at(self, event):
        """The last change at or before an event; -1 = none."""
        return bisect.bisect_right(self.events, event) - 1

    def class_of(self, allocation):
        return self.classes[allocation["klass"]]

    def frames(self, stack):
        """(function, file, line) of each frame of a stack, innermost first."""
        return [(frame["function"], frame["file"], frame["line"]) for frame in self.stacks.get(stack, ())]

    def tensors_of(self, allocation):
        tensor = self.class_of(allocation)["tensors"]
        while tensor:
            yield self.tensors[tensor - 1]
            tensor = self.tensors[tensor - 1]["next"]

    def phases(self):
        """(first event, phase, step, time) of each run of a phase."""
        return [(row["first_event"], row["phase"], row["step"], row["t_ns"]) for row in self.table("phases")]

    def savings(self, device, advice):
        """What an advice would have saved just after each change."""
        rows = [(row["event"], row["bytes"]) for row in self.table("savings") if (row["device"], row["advice"]) == (device, advice)]
        events = [event for event, _ in rows]
        return [rows[at - 1][1] if (at := bisect.bisect_right(events, event)) else 0 for event in self.events]

    def inflated(self, name):
        blob = self.head["blobs"][name]
        raw = zlib.decompress(self.data[blob["offset"]:blob["offset"] + blob["bytes"]])
        assert len(raw) == blob["raw_bytes"]
        return blob, raw

    def document(self, name):
        blob, raw = self.inflated(name)
        assert "columns" not in blob
        return json.loads(raw.decode())

    def table(self, name):
        """Its rows, each {column: number or text}."""
        blob, raw = self.inflated(name)
        numbers, columns = varints(raw), []
        for encoding in blob["columns"].values():
            values = itertools.islice(numbers, blob["rows"])
            if encoding == "deltas":
                values = deltas(values)
            columns.append([self.strings[value] for value in values] if encoding == "texts" else list(values))
            assert len(columns[-1]) == blob["rows"] and encoding in ("numbers", "deltas", "texts")
        assert next(numbers, None) is None
        return [dict(zip(blob["columns"], row)) for row in zip(*columns)]


def read(path):
    """(HEAD, traces)"""
    texts = scripts(path.read_text(encoding="utf-8"))
    head = json.loads(texts[MARKS[0]])
    data = base64.b64decode(texts[MARKS[1]], validate=True)
    return head, [Trace(trace, data) for trace in head["traces"]]


def sums_at(trace, change, device):
    """Bytes by category of a device just after a change (-1 = before the first), and what the driver gave."""
    categories, driver = dict.fromkeys((category["name"] for category in trace.head["categories"]), 0), 0
    for allocation in trace.alive(change):
        klass, size = trace.class_of(allocation), allocation["bytes"]
        if klass["device"] not in (device, -1):
            continue
        categories[klass["category"]] += klass["counted"] * size
        categories["cached"] += klass["cached"] * size
        driver += klass["driver"] * size
    return categories, driver


def kind_bytes(trace, change, device, kind):
    """Bytes of what is of one kind, counted or not."""
    return sum(allocation["bytes"] for allocation in trace.alive(change)
               if trace.class_of(allocation)["device"] == device and trace.class_of(allocation)["kind"] == kind)
