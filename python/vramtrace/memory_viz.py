"""Makes the pickle of `vramtrace export --format memory-viz`: a snapshot of PyTorch's caching allocator, as
torch.cuda.memory._snapshot() makes it, for pytorch.org/memory_viz and other tools that read such snapshots.

    memory_viz.py FROM TO NAME

FROM and TO are numbers of open files: what analyzer/view/memory_viz writes, and the pickle, called NAME. What is not PyTorch's own in it:

- Device memory that no caching allocator owns (of libraries, the context) is there too: each such allocation as a
  segment with one block. These segments have a key "vramtrace_kind" (driver, context, pooled, block); without them, the
  sums are PyTorch's counters. What has no address gets one from 2^48 on.
- Actions and blocks have a "category", by which the viewer colours them; "user_metadata" is the owner or module.
- A free is requested and completed at once, and all streams are 0: a trace knows neither.
- Phases and marks are external annotations.
"""
import csv
import gc
import json
import os
import pickle
import resource
import sys
from array import array
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TextIO, Tuple

NOT_WRITTEN, MEMORY_RAN_OUT = 4, 5
FIRST_MADE_UP_ADDRESS = 1 << 48  # above every address of a process, below what a number of JavaScript can hold
NEVER = 1 << 62
# How actions of one event are ordered.
FREE, SEGMENT_FREE, SEGMENT_ALLOC, ALLOC, OUT_OF_MEMORY = range(5)

Entry = Dict[str, Any]
Action = Tuple[int, int, int]  # event, what, number of an allocation or of an out of memory


class Memory(NamedTuple):
    """An allocation. Role: block (in a segment of the caching allocator), segment, mapped (the same by mapping: a part of an
    expandable segment), direct (a segment with one block, which fills it); "" is not shown."""

    role: str
    kind: str
    device: int
    address: int
    size: int
    rounding: int
    alloc_event: int
    free_event: int
    t_ns: int
    free_t_ns: int
    stack: int
    free_stack: int
    category: str
    about: str


class Snapshot:
    def __init__(self, source: TextIO) -> None:
        self.texts: Dict[str, str] = {}
        self.shown: Dict[str, Any] = json.loads(source.readline())
        self.event_stacks = array("Q")  # by event
        self.handles = bytearray()  # by event: whether it creates one
        self.memory: List[Memory] = []
        self.made_up = FIRST_MADE_UP_ADDRESS
        self.frames: List[Entry] = []
        self.stacks: Dict[int, List[Entry]] = {}
        self.nothing: List[Entry] = []
        self.spans: List[Tuple[str, int, int]] = []  # name, beginning, end
        self.failed: List[Dict[str, str]] = []
        readers: Dict[str, Callable[[Dict[str, int], List[str]], None]] = {
            "events": self.read_event, "allocations": self.read_allocation, "frames": self.read_frame,
            "stacks": self.read_stack, "phases": self.read_phase, "marks": self.read_mark,
            "out_of_memory": lambda at, row: self.failed.append({name: row[i] for name, i in at.items()})}
        rows = csv.reader(source)
        for row in rows:
            if len(row) == 2:  # no table has as few columns
                read = readers[row[1]]
                at = {name: i for i, name in enumerate(next(rows))}
            else:
                read(at, row)

    # ---- Tables ----

    def text(self, text: str) -> str:
        """The same object for the same text: it is written once."""
        return self.texts.setdefault(text, text)

    def read_event(self, at: Dict[str, int], row: List[str]) -> None:
        self.event_stacks.append(int(row[at["stack"]]))
        self.handles.append(row[at["kind"]] == "handle_create")

    def role(self, at: Dict[str, int], row: List[str]) -> str:
        kind, parent = row[at["kind"]], row[at["parent"]]
        if int(row[at["device"]]) < 0 or row[at["is_foreign"]] == "true":
            return ""
        if kind == "segment":
            return "mapped" if self.handles[int(row[at["alloc_event"]])] else "segment"
        if kind == "block" and parent and int(parent) < len(self.memory) and self.memory[int(parent)].role in ("segment", "mapped"):
            return "block"
        return "direct" if int(row[at["counted_bytes"]]) else ""

    def read_allocation(self, at: Dict[str, int], row: List[str]) -> None:
        free_event, size, address = row[at["free_event"]], int(row[at["bytes"]]), int(row[at["address"]])
        role = self.role(at, row)
        if role == "direct" and not address:
            address = self.made_up
            self.made_up += size
        self.memory.append(Memory(
            role, row[at["kind"]], int(row[at["device"]]), address, size, int(row[at["rounding_bytes"]]), int(row[at["alloc_event"]]),
            int(free_event) if free_event else NEVER, int(row[at["t_ns"]]), int(row[at["free_t_ns"]] or 0), int(row[at["stack"]]),
            self.event_stacks[int(free_event)] if free_event else 0, self.text(row[at["category"]]),
            self.text(row[at["owner"]] or row[at["module"]])))

    def read_frame(self, at: Dict[str, int], row: List[str]) -> None:
        name = row[at["function"]]
        if row[at["kind"]] == "python":  # PyTorch has the plain name of Python's functions: "forward", not "Model.forward"
            name = name.rpartition(".")[2] or name
        self.frames.append({"name": self.text(name), "filename": self.text(row[at["file"]] or row[at["module"]]),
                            "line": int(row[at["line"]])})

    def read_stack(self, at: Dict[str, int], row: List[str]) -> None:
        self.stacks.setdefault(int(row[at["stack"]]), []).append(self.frames[int(row[at["frame"]])])

    def read_phase(self, at: Dict[str, int], row: List[str]) -> None:
        self.spans.append((self.text(row[at["phase"]]), int(row[at["t_ns"]]), int(row[at["end_ns"]])))

    def read_mark(self, at: Dict[str, int], row: List[str]) -> None:
        self.spans.append((self.text(row[at["name"]]), int(row[at["t_ns"]]), int(row[at["t_ns"]])))

    # ---- Segments ----

    def time_us(self, t_ns: int) -> int:
        return (int(self.shown["start_ns"]) + t_ns) // 1000

    def stack(self, number: int) -> List[Entry]:
        return self.stacks.get(number, self.nothing)

    def block(self, address: int, size: int, memory: Optional[Memory]) -> Entry:
        """Without memory: a hole."""
        block: Entry = {"address": address, "size": size, "requested_size": size - memory.rounding if memory else 0,
                        "state": "active_allocated" if memory else "inactive", "frames": self.stack(memory.stack if memory else 0)}
        if memory:
            block["category"] = memory.category
            block["user_metadata"] = memory.about
        return block

    def segment(self, memory: Memory, size: int, pool: str, blocks: List[Entry]) -> Entry:
        active = sum(block["size"] for block in blocks if block["state"] != "inactive")
        segment: Entry = {
            "device": memory.device, "address": memory.address, "total_size": size, "allocated_size": active, "active_size": active,
            "requested_size": sum(block["requested_size"] for block in blocks), "stream": 0, "segment_type": pool,
            "segment_pool_id": (0, 0), "is_expandable": memory.role == "mapped", "frames": self.stack(memory.stack)}
        if memory.role == "direct":
            segment["vramtrace_kind"] = memory.kind
        segment["blocks"] = blocks
        return segment

    def segments(self) -> List[Entry]:
        segments: List[Entry] = []
        for device in self.shown["devices"]:
            for found in device["segments"]:
                blocks = [self.block(address, size, self.memory[number] if number >= 0 else None)
                          for address, size, number in found["blocks"]]
                segments.append(self.segment(self.memory[found["allocation"]], found["bytes"], self.text(found["pool"]), blocks))
            for memory in self.memory:
                if (memory.role == "direct" and memory.device == device["index"] and
                        memory.alloc_event <= device["event"] < memory.free_event):
                    segments.append(self.segment(memory, memory.size, "large", [self.block(memory.address, memory.size, memory)]))
        return segments

    # ---- What the allocators did ----

    def entry(self, action: str, address: int, size: int, t_ns: int, stack: int, about: str, category: Optional[str]) -> Entry:
        entry: Entry = {"action": action, "device_free" if action == "oom" else "addr": address, "size": size, "stream": 0,
                        "time_us": self.time_us(t_ns), "compile_context": "N/A", "user_metadata": about, "frames": self.stack(stack)}
        if category:
            entry["category"] = category
        return entry

    def entries_of(self, what: int, memory: Memory) -> List[Entry]:
        size = memory.size - memory.rounding
        if what == ALLOC:
            return [self.entry("alloc", memory.address, size, memory.t_ns, memory.stack, memory.about, memory.category)]
        if what == FREE:
            return [self.entry(action, memory.address, size, memory.free_t_ns, memory.free_stack, memory.about, memory.category)
                    for action in ("free_requested", "free_completed")]
        if what == SEGMENT_ALLOC:
            action = "segment_map" if memory.role == "mapped" else "segment_alloc"
            return [self.entry(action, memory.address, memory.size, memory.t_ns, memory.stack, memory.about, None)]
        action = "segment_unmap" if memory.role == "mapped" else "segment_free"
        return [self.entry(action, memory.address, memory.size, memory.free_t_ns, memory.free_stack, memory.about, None)]

    def actions(self, device: int, last: int) -> List[Action]:
        """Up to the last event that is shown, in order."""
        found: List[Action] = []
        for number, memory in enumerate(self.memory):
            if memory.device != device or not memory.role or memory.alloc_event > last:
                continue
            ends = [(ALLOC, FREE)] if memory.role == "block" else [(SEGMENT_ALLOC, SEGMENT_FREE)]
            if memory.role == "direct":
                ends.append((ALLOC, FREE))
            for begin, end in ends:
                found.append((memory.alloc_event, begin, number))
                if memory.free_event <= last:
                    found.append((memory.free_event, end, number))
        found += [(int(failed["event"]), OUT_OF_MEMORY, number) for number, failed in enumerate(self.failed)
                  if failed["layer"] == "framework" and int(failed["device"]) == device and int(failed["event"]) <= last]
        return sorted(found)

    def trace_of(self, device: Dict[str, Any]) -> List[Entry]:
        """The last entry is this snapshot itself. Its category makes sure that there is one called unknown: without, the viewer
        in the browser stops with an error."""
        entries: List[Entry] = []
        for event, what, number in self.actions(device["index"], device["event"]):
            if what == OUT_OF_MEMORY:
                failed = self.failed[number]
                entries.append(self.entry("oom", self.shown["free_bytes"][number], int(failed["requested_bytes"]), int(failed["t_ns"]),
                                          self.event_stacks[event], "", None))
            else:
                entries += self.entries_of(what, self.memory[number])
        if entries:
            entries.append(self.entry("snapshot", 0, device["segment_bytes"], device["t_ns"], 0, "", self.text("unknown")))
        return entries

    def annotations(self) -> List[Entry]:
        return [{"device": device["index"], "name": name, "stage": stage, "time_us": self.time_us(t_ns)}
                for device in self.shown["devices"] for name, *times in self.spans
                for stage, t_ns in zip(("START", "END"), times) if t_ns <= device["t_ns"]]

    def make(self) -> Entry:
        devices = {device["index"]: device for device in self.shown["devices"]}
        return {
            "segments": self.segments(),
            "device_traces": [self.trace_of(devices[index]) if index in devices else [] for index in range(max(devices, default=-1) + 1)],
            # Of PyTorch's settings a trace shows one.
            "allocator_settings": {"expandable_segments": any(memory.role == "mapped" for memory in self.memory)},
            "external_annotations": self.annotations()}


def main() -> int:
    gc.disable()  # nothing here is in a circle, and there is much of it
    csv.field_size_limit(1 << 30)
    # Without any memory CPython before 3.14 loops for ever where an error leaves a `with` or a generator: none here.
    reserve = bytearray(8 << 20)
    try:
        source = open(int(sys.argv[1]), encoding="utf-8", errors="replace", newline="")
        snapshot = Snapshot(source).make()
        target = open(int(sys.argv[2]), "wb")
        pickle.dump(snapshot, target, protocol=4)
        target.close()
    except BrokenPipeError:  # a reader that went away is no error
        os._exit(0)
    except OSError as error:
        print("vramtrace export: cannot write %s: %s" % (sys.argv[3], error.strerror), file=sys.stderr)
        return NOT_WRITTEN
    except MemoryError:
        del reserve
        print("vramtrace export: out of memory with %.2f GiB in use; raise the limit (ulimit -v, container), or use a machine with more "
              "memory" % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)), file=sys.stderr)
        return MEMORY_RAN_OUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
