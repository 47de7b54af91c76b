#!/usr/bin/env python3
"""Traces as lists of records for fuzz_trace.c: seeds.py TRACE... FOLDER"""
import pathlib
import struct
import sys

from mutate import EVENT_BYTES, decoded

EVENT = struct.Struct("<IIQQQQQQIBBbB")  # struct vt_event
MOST_BYTES = 32768
RAW, END_CHUNK = b"\x83", b"\x84"  # kinds of fuzz_trace.c: 128 and more, 11 and 12 of 20


def number(value):
    return bytes([value]) if 0 <= value < 128 else b"\xff" + (value % 2**64).to_bytes(8, "little")


def definitions_of(data):
    at = 0
    while at + 8 <= len(data):
        kind, size = data[at + 2], int.from_bytes(data[at + 4:at + 8], "little")
        if size < 8:
            return
        yield RAW + bytes([kind]) + (size - 8).to_bytes(2, "little") + data[at + 8:at + size]
        at += -(-size // 8) * 8


def events_of(data, before):
    for at in range(0, len(data), EVENT_BYTES):
        _, _, t_ns, address, size, detail, total, sequence, stack, kind, layer, device, flags = EVENT.unpack_from(data, at)
        yield (bytes([0, kind, layer, 255]) + (stack % 2**16).to_bytes(2, "little") + number(address) + number(size) + number(detail) +
               number(total) + number(sequence) + bytes([flags, device % 256]) + number(t_ns - before))
        before = t_ns


def main():
    *traces, folder = map(pathlib.Path, sys.argv[1:])
    for trace in traces:
        records, before = [b"\0"], 0
        for definitions, events, *_ in decoded(trace.read_bytes()):
            records += [*definitions_of(definitions), *events_of(events, before), END_CHUNK]
            before = EVENT.unpack_from(events, len(events) - EVENT_BYTES)[2] if events else before
        (folder / f"{trace.parent.name}-{trace.stem}").write_bytes(b"".join(records)[:MOST_BYTES])


main()
