#!/usr/bin/env python3
"""Damages a trace in many ways; whatever is in a file, each command ends by itself with a status of its own.

    mutate.py TRACE... [--count 200] [--seed 1]

Half of the files are damaged as they lie there, which checksums tell. The other half are damaged within, with the right
checksum, as by a recorder gone mad or someone who means harm: all chunks are decoded, the definitions or events of one are
changed, and all are coded again; or of a chunk the packed bytes or the header are changed. Of a killed process whose ring is
still in memory, the ring is damaged too.

Long form: build with `meson setup build-asan -Db_sanitize=address,undefined`, set VRAMTRACE_BUILD to it, and give
--count 20000. A status other than 0, 1 and 3, a signal, or more than 20 s is a failure; the file that made it is kept.
"""
import argparse
import ctypes
import ctypes.util
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
from trace_file import BUILD, LIBRARY  # noqa: E402

PROGRAM = BUILD / "analyzer" / "vramtrace"
COMMANDS = (["info", "--verify"], ["report"], ["report", "--json"], ["info", "--events", "--stacks"], ["steps"],
            ["leaks"], ["leaks", "--json"], ["oom"], ["oom", "--json"], ["frag"], ["frag", "--json"],
            ["annotate"], ["annotate", "--json", "--by", "phase", "{}", "<string>"], ["html", "-o", "/dev/null"],
            ["diff", "{}@end", "{}"], ["check", "--max-peak", "1"], ["list"], ["export", "--format", "csv", "--table", "instants"],
            ["export", "--format", "sqlite", "-o", "{}.sqlite"],
            *(["export", "--format", form, "-o", "/dev/null"] for form in ("perfetto", "pprof", "speedscope", "folded", "memory-viz")))
HEADER_BYTES, RING_SLOT_BYTES = 4096, 64
RING_PATH, RING_PATH_BYTES = 1368, 256  # in struct vt_file_header
RING_HEADER_BYTES, RING_POSITIONS, RING_START_TICKS = 65536, 88, 56  # in struct vt_ring_header
CHUNKS_OFFSET, CHUNKS_END, FILE_HEADER_BYTES = 40, 208, 1632  # of struct vt_file_header
CHUNK = struct.Struct("<IIIIIIQQQII")  # struct vt_chunk_header
CHECKSUM, CHAIN, PLACE = 32, 40, 48  # in it
EVENT_BYTES = 64
FIELDS = ((4, 4), *((at, 8) for at in range(8, 56, 8)), (56, 4), *((at, 1) for at in range(60, 64)))  # of struct vt_event
EXTREMES = (0, 1, 2, 511, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**47, 2**63 - 1, 2**63, 2**64 - 512, 2**64 - 1)
XXHASH = ctypes.CDLL(ctypes.util.find_library("xxhash"))
for function in (XXHASH.XXH3_64bits, XXHASH.XXH3_64bits_withSeed):
    function.restype = ctypes.c_uint64


def flip(data, choose, start, end):
    for _ in range(choose.choice((1, 1, 1, 4, 32))):
        if end > start:
            data[choose.randrange(start, end)] = choose.choice((0, 1, 0x7f, 0x80, 0xff, choose.randrange(256)))


def mutate(original, choose):
    """Bits of the header, of the first chunks, of all; cuts; stretches doubled, zeroed or swapped."""
    data = bytearray(original)
    chunks = int.from_bytes(data[40:48], "little") or HEADER_BYTES
    kind = choose.randrange(6)
    if kind == 0:
        flip(data, choose, 0, 512)
    elif kind in (1, 2):
        flip(data, choose, min(chunks, len(data) - 1), len(data))
    elif kind == 3:
        del data[choose.randrange(len(data)):]
    elif kind == 4:
        at, size = choose.randrange(len(data)), choose.choice((8, 64, 512))
        data[at:at + size] = bytes(choose.choice((0, 0xff)) for _ in range(size))
    else:
        one, other = sorted(choose.randrange(len(data)) for _ in range(2))
        data[one:one + 64], data[other:other + 64] = data[other:other + 64], data[one:one + 64]
    return bytes(data)


def ring_of(data):
    path = pathlib.Path(os.fsdecode(data[RING_PATH:RING_PATH + RING_PATH_BYTES].partition(b"\0")[0]))
    return path if path.name.endswith(".ring") and path.exists() else None


def mutate_ring(original, choose):
    """The trace with the path of a damaged copy of its ring, which no recorder takes for one that it should adopt."""
    ring = ring_of(original)
    data = bytearray(ring.read_bytes())
    data[RING_START_TICKS:RING_START_TICKS + 8] = bytes(8)
    reserved = int.from_bytes(data[RING_POSITIONS:RING_POSITIONS + 8], "little")
    used = min(len(data), RING_HEADER_BYTES + reserved * RING_SLOT_BYTES)
    kind = choose.randrange(5)
    if kind == 0:
        flip(data, choose, 0, RING_POSITIONS + 16)
    elif kind == 1:
        flip(data, choose, RING_HEADER_BYTES, used)
    elif kind == 2:
        at = RING_HEADER_BYTES + choose.randrange(max(1, reserved)) * RING_SLOT_BYTES  # a record's head
        data[at:at + 8] = struct.pack("<HBBI", choose.choice((0, 1, 2, 60000, 65535)), choose.randrange(32),
                                      choose.randrange(2), choose.choice(EXTREMES) % 2**32)
    elif kind == 3:
        data[RING_POSITIONS:RING_POSITIONS + 16] = struct.pack("<QQ", choose.choice(EXTREMES), choose.choice(EXTREMES))
    else:
        del data[choose.randrange(len(data)):]
    words = ring.name.split(".")
    words[3] = f"{int(words[3], 16) ^ 1:016x}"
    damaged = ring.with_name(".".join(words))
    damaged.write_bytes(data)
    return original[:RING_PATH] + os.fsencode(damaged).ljust(RING_PATH_BYTES, b"\0") + original[RING_PATH + RING_PATH_BYTES:]


def chunks_of(data):
    """(offset, header's fields), of those that are whole."""
    offset, end = (int.from_bytes(data[at:at + 8], "little") for at in (CHUNKS_OFFSET, CHUNKS_END))
    found = []
    while offset + CHUNK.size <= min(end, len(data)):
        fields = CHUNK.unpack_from(data, offset)
        found.append((offset, fields))
        offset += fields[1] + fields[2]
    return found


def change_events(events, choose):
    """Values that no recorder writes, a field of another event, a field of all events."""
    data, count = bytearray(events), len(events) // EVENT_BYTES
    for _ in range(choose.choice((1, 1, 2, 8))):
        (at, size), event = choose.choice(FIELDS), choose.randrange(count)
        kind, place = choose.randrange(4), event * EVENT_BYTES + at
        value = data[place:place + size]
        if kind == 0:
            value = choose.choice(EXTREMES).to_bytes(8, "little")[:size]
        elif kind == 1:
            other = choose.randrange(count) * EVENT_BYTES + choose.choice([other for other, bytes_ in FIELDS if bytes_ == size])
            value = data[other:other + size]
        elif kind == 2:
            value = (int.from_bytes(value, "little") + choose.randrange(-8, 9)).to_bytes(9, "little", signed=True)[:size]
        else:
            value = choose.choice(EXTREMES).to_bytes(8, "little")[:size]
            for each in range(event, count):
                data[each * EVENT_BYTES + at:each * EVENT_BYTES + at + size] = value
        data[place:place + size] = value
    return bytes(data)


def change_definitions(definitions, choose):
    """Heads and bodies of records, their numbers, text; records twice or left out."""
    starts, at = [], 0
    while at + 8 <= len(definitions):
        starts.append(at)
        at += max(8, -(-int.from_bytes(definitions[at + 4:at + 8], "little") // 8) * 8)
    data = bytearray(definitions)
    for _ in range(choose.choice((1, 1, 2, 8))):
        start = choose.choice(starts)
        end = next((other for other in starts if other > start), len(data))
        kind, at = choose.randrange(5), choose.randrange(start, max(start + 1, end))
        if kind == 0:
            flip(data, choose, start, end)
        elif kind == 1:
            data[at - at % 4:at - at % 4 + 4] = (choose.choice(EXTREMES) % 2**32).to_bytes(4, "little")
        elif kind == 2:
            data[at - at % 8:at - at % 8 + 8] = choose.choice(EXTREMES).to_bytes(8, "little")
        elif kind == 3:
            other = choose.choice(starts)
            size = min(end - start, len(data) - other)
            data[other:other + size] = data[start:start + size]
        else:
            data[at:at + 16] = choose.choice((b"\t" * 16, b"\n" * 16, b"\xff" * 16, b"0123456789abcdef", b"-1\t" * 5 + b"\n"))
    return bytes(data[:len(definitions)])


def decoded(data):
    """(definitions, events, ring position, place in the chain) of each chunk."""
    chain, found = LIBRARY.vt_chain_make(), []
    for offset, (_, header_bytes, size, _, definitions_bytes, events, position, _, _, place, _) in chunks_of(data):
        definitions, room = (ctypes.create_string_buffer(bytes_ + 1) for bytes_ in (definitions_bytes, events * EVENT_BYTES))
        start = offset + header_bytes
        assert LIBRARY.vt_chain_read(chain, data[offset:start], data[start:start + size], definitions, room) == 0
        found.append((definitions.raw[:-1], room.raw[:-1], position, place))
    LIBRARY.vt_chain_free(chain)
    return found


def mutate_within(original, choose):
    chunks = decoded(original)
    changed = choose.choice([i for i, (definitions, events, *_) in enumerate(chunks) if definitions or events])
    builder = LIBRARY.builder_new(64)
    for i, (definitions, events, position, _) in enumerate(chunks):
        if i == changed and events and (not definitions or choose.randrange(2)):
            events = change_events(events, choose)
        elif i == changed:
            definitions = change_definitions(definitions, choose)
        LIBRARY.builder_definitions(builder, definitions, len(definitions))
        LIBRARY.builder_events(builder, events, len(events) // EVENT_BYTES)
        LIBRARY.builder_set_position(builder, position)
        LIBRARY.builder_end_chunk(builder)
        if i + 1 < len(chunks) and chunks[i + 1][3] == 0:
            LIBRARY.builder_end_chain(builder)
    header = bytearray(original[:FILE_HEADER_BYTES])
    header[CHUNKS_OFFSET:CHUNKS_OFFSET + 8] = HEADER_BYTES.to_bytes(8, "little")
    header[CHUNKS_END:CHUNKS_END + 8] = bytes(8)
    ctypes.memmove(LIBRARY.builder_header(builder), bytes(header), FILE_HEADER_BYTES)
    size = ctypes.c_size_t()
    data = ctypes.string_at(LIBRARY.builder_image(builder, ctypes.byref(size)), size.value)
    LIBRARY.builder_free(builder)
    return data


def mutate_packed(original, choose):
    """Packed bytes that no recorder writes, and headers that say something else than what follows."""
    data = bytearray(original)
    for _ in range(choose.choice((1, 1, 3))):
        offset, fields = choose.choice(chunks_of(original))
        start, size = offset + fields[1], fields[2]
        if choose.randrange(3):
            flip(data, choose, start, start + size)
        if choose.randrange(3) == 0:  # payload, definitions, events, chain, place
            at = offset + choose.choice((12, 16, 20, CHAIN, PLACE))
            value = choose.choice((choose.choice(EXTREMES) % 2**32, choose.randrange(size + 2), choose.randrange(8 * size + 9)))
            data[at:at + 4] = value.to_bytes(4, "little")
        data[offset + CHECKSUM:offset + CHECKSUM + 8] = bytes(8)
        packed, header = bytes(data[start:start + size]), bytes(data[offset:offset + CHUNK.size])
        seed = XXHASH.XXH3_64bits(header, ctypes.c_size_t(len(header)))
        checksum = XXHASH.XXH3_64bits_withSeed(packed, ctypes.c_size_t(size), ctypes.c_uint64(seed))
        data[offset + CHECKSUM:offset + CHECKSUM + 8] = checksum.to_bytes(8, "little")
    return bytes(data)


def failure_of(path):
    for command in COMMANDS:
        try:
            words = [word.replace("{}", str(path)) for word in command]
            done = subprocess.run([PROGRAM, *words, *([] if "{}" in command else [path])], capture_output=True, timeout=20)
        except subprocess.TimeoutExpired:
            return f"{command}: still running after 20 s"
        if done.returncode not in (0, 1, 3) and not (command[-1] == "<string>" and done.returncode == 2):  # no such file
            return f"{command}: status {done.returncode}\n{done.stderr.decode(errors='replace')[-2000:]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    choose = random.Random(arguments.seed)
    originals = [path.read_bytes() for path in arguments.traces]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "damaged.vrt"
        for number in range(arguments.count):
            original = choose.choice(originals)
            within = choose.randrange(2) and chunks_of(original)
            way = choose.choice((mutate_within, mutate_packed)) if within else mutate
            if choose.randrange(2) and ring_of(original):
                way = mutate_ring
            path.write_bytes(way(original, choose))
            failure = failure_of(path)
            if way is mutate_ring and ring_of(path.read_bytes()):  # a recorder that began meanwhile may have taken it
                ring_of(path.read_bytes()).unlink(missing_ok=True)
            if failure:
                kept = pathlib.Path(tempfile.gettempdir()) / f"damaged-{arguments.seed}-{number}.vrt"
                kept.write_bytes(path.read_bytes())
                print(f"{kept}: {failure}")
                failures += 1
    print(f"{arguments.count - failures} passed, {failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
