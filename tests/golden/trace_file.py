"""Makes trace files: records in plain Python, straight from format.h, packed by the recorder's own coder
(tests/unit/trace_builder.c)."""

import ctypes
import os
import pathlib
import struct

BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", "build")).resolve()
LIBRARY = ctypes.CDLL(str(BUILD / "tests" / "unit" / "libtrace_builder.so"))
POINTER, BYTES, SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
for name, result, *arguments in (
        ("builder_new", POINTER, ctypes.c_uint64), ("builder_free", None, POINTER), ("builder_header", POINTER, POINTER),
        ("builder_raw", None, POINTER, ctypes.c_uint8, BYTES, ctypes.c_uint32), ("builder_events", None, POINTER, BYTES, SIZE),
        ("builder_definitions", None, POINTER, BYTES, SIZE), ("builder_set_position", None, POINTER, ctypes.c_uint64),
        ("builder_end_chunk", None, POINTER), ("builder_end_chain", None, POINTER), ("builder_image", POINTER, POINTER, POINTER),
        ("vt_chain_make", POINTER), ("vt_chain_free", None, POINTER),
        ("vt_chain_read", ctypes.c_int, POINTER, BYTES, BYTES, POINTER, POINTER)):
    function = getattr(LIBRARY, name)
    function.restype, function.argtypes = result, arguments

PROCESS, STRING, THREAD, DEVICE, STACK, CODE, SYMBOL, MODULE, FUNCTION, LOOK = range(16, 26)
CARD_USE = 28
MEMORY_INFO = 13
ALLOC, FREE, CONTEXT_CREATE, OOM, MARK, LOOK_EVENT = 1, 2, 15, 17, 19, 22
DRIVER, FRAMEWORK = 1, 3
START_NS = 1024  # the coder rounds times down to multiples of 256 ns
PID, CHUNKS_END = 56, 208  # offsets in struct vt_file_header
MAIN_THREAD = 77


class TraceFile:
    def __init__(self, host=b"host", started_ns=1_700_000_000_000_000_000):
        self.host, self.started_ns = host, started_ns
        self.builder = LIBRARY.builder_new(4096)
        self.t_ns = START_NS

    def __del__(self):
        LIBRARY.builder_free(self.builder)

    def record(self, kind, body):
        LIBRARY.builder_raw(self.builder, kind, body, len(body))

    def event(self, kind, layer=0, address=0, size=0, detail=0, total=0, stack=0, device=0, after_ns=1_000_000, flags=0,
              thread=MAIN_THREAD):
        self.t_ns += after_ns
        LIBRARY.builder_events(self.builder, struct.pack("<IIQQQQQQIBBbB", 0, thread, self.t_ns, address, size, detail, total,
                                                         0, stack, kind, layer, device, flags), 1)

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
        body = struct.pack("<IIHHHHII", number, 0, function, 0, len(native), len(python), 0, 0)
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
        header = (ctypes.c_char * (CHUNKS_END + 8)).from_address(LIBRARY.builder_header(self.builder))
        struct.pack_into("<IIQQ64s32sIIQ", header, PID, 4711, 1, self.started_ns, START_NS, self.host, b"0.2.0", state, 0, self.t_ns)
        struct.pack_into("<Q", header, CHUNKS_END, 0)  # where they end is not known yet
        size = ctypes.c_size_t()
        image = LIBRARY.builder_image(self.builder, ctypes.byref(size))
        with open(path, "wb") as file:
            file.write(ctypes.string_at(image, size.value))
        return path
