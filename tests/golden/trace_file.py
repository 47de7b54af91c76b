"""Makes trace files in plain Python, straight from format.h: a header, and records in the ring as a killed process leaves
them. Nothing here comes from the recorder or the analyzer."""

import struct

HEADER_BYTES, SLOT_BYTES = 8192, 64
PROCESS, STRING, THREAD, DEVICE, STACK, CODE, SYMBOL, MODULE, FUNCTION, LOOK = range(16, 26)
CARD_USE = 28
EVENT_RECORD = 2
MEMORY_INFO = 13
ALLOC, FREE, CONTEXT_CREATE, OOM, MARK, LOOK_EVENT = 1, 2, 15, 17, 19, 22
DRIVER, FRAMEWORK = 1, 3
START_NS = 1000


class TraceFile:
    def __init__(self, host=b"host", started_ns=1_700_000_000_000_000_000, slots=4096):
        self.host, self.started_ns, self.slots = host, started_ns, slots
        self.ring = bytearray()
        self.t_ns = START_NS
        self.events = 0

    def record(self, kind, body):
        size = 8 + len(body)
        slots = -(-size // SLOT_BYTES)
        self.ring += (struct.pack("<HBBI", slots, kind, 1, size) + body).ljust(slots * SLOT_BYTES, b"\0")

    def event(self, kind, layer=0, address=0, size=0, detail=0, total=0, stack=0, device=0, after_ns=1_000_000, flags=0):
        self.t_ns += after_ns
        self.events += 1
        body = struct.pack("<QQQQQQIBBbB", self.t_ns, address, size, detail, total, 0, stack, kind, layer, device, flags)
        self.record(EVENT_RECORD, body)

    def process(self, arguments, folder, executable):
        words = [*arguments, folder, executable]
        self.record(PROCESS, struct.pack("<II", len(arguments), 0x030B07F0) + b"".join(w + b"\0" for w in words))

    def string(self, number, text, kind=STRING):
        self.record(kind, struct.pack("<Q", number) + text)

    def device(self, index, size, name):
        self.record(DEVICE, struct.pack("<IIQ", index, 0, size) + name)

    def code(self, number, file, name, lines=b""):
        """`lines`: co_linetable of CPython 3.11, from line 7 on."""
        self.record(CODE, struct.pack("<IiHHIII", number, 7, 11, 0, len(file), len(name), len(lines)) + file + name + lines)

    def module(self, base, end, path):
        self.record(MODULE, struct.pack("<QQQII", base, base, end, 0, len(path)) + path)

    def symbol(self, address, base, name):
        self.record(SYMBOL, struct.pack("<QQQ", address, address, base) + name)

    def stack(self, number, native=(), python=(), function=0):
        body = struct.pack("<IIHHHHII", number, 77, function, 0, len(native), len(python), 0, 0)
        body += b"".join(struct.pack("<Q", a) for a in native) + b"".join(struct.pack("<IiQ", *f) for f in python)
        self.record(STACK, body)

    def look(self, number, text):
        self.record(LOOK, struct.pack("<IIIIQ", number, 4, 0, 1, 1000) + text)

    def card_use(self, used, processes, own=0xffffffff, reserved=0, total=1 << 34, begin_ns=None, end_ns=None, flags=1,
                 count=None, device=0, text=None):
        """`processes`: (pid, bytes, command)."""
        begin_ns = self.t_ns + 20_000_000 if begin_ns is None else begin_ns
        body = struct.pack("<IIQQQQQII", device, len(processes) if count is None else count, begin_ns,
                           begin_ns if end_ns is None else end_ns, total, used, reserved, own, flags)
        body += b"".join(struct.pack("<IIQ", pid, 0, size) for pid, size, _ in processes)
        self.record(CARD_USE, body + (b"".join(command + b"\0" for *_, command in processes) if text is None else text))

    def write(self, path, state=1):
        ring_offset, chunks_offset = HEADER_BYTES, HEADER_BYTES + self.slots * SLOT_BYTES
        used = len(self.ring) // SLOT_BYTES
        assert used <= self.slots
        header = struct.pack("<8sIIIIQQQQ", b"VRAMTRC\n", 1, 1, HEADER_BYTES, SLOT_BYTES, ring_offset, self.slots,
                             chunks_offset, 0)
        header += struct.pack("<IIQQ64s32s", 4711, 1, self.started_ns, START_NS, self.host, b"0.2.0")
        header += struct.pack("<IIQQQQQQQQ", state, 0, self.t_ns, used, 0, chunks_offset, self.events, 0, 0, 0)
        data = header.ljust(HEADER_BYTES, b"\0") + bytes(self.ring).ljust(self.slots * SLOT_BYTES, b"\0")
        with open(path, "wb") as file:
            file.write(data)
        return path
