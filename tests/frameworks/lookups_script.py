"""NVIDIA's runtime inside a framework's library (linked statically) looks up its driver functions when it is first used, and
then refuses the stand-in. Prints which of the hooked functions it keeps: ours, and those of the driver itself.

    lookups_script.py LIBRARY STATEMENT HOOKED...     LIBRARY: a part of its file's name"""
import ctypes
import json
import os
import re
import struct
import subprocess
import sys

part, statement, *hooked = sys.argv[1:]
kept_loaded = ctypes.CDLL("libcuda.so.1")  # the runtime lets go of it at the end
try:
    exec(statement)
    ended = "without an error"
except Exception as error:
    ended = f"{type(error).__name__}: {error}"
maps = [re.match(r"(\w+)-(\w+) (\S+) (\w+) \S+ \d+ *(.*)", line).groups() for line in open("/proc/self/maps")]


def addresses(name):
    """Of a library's hooked functions by its own table: dlsym would answer with ours."""
    path = next((path for *_, path in maps if name in path), None)
    if path is None:
        return {}
    base = min(int(begin, 16) for begin, _, _, _, other in maps if other == path)
    table = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True,
                           env={**os.environ, "LD_PRELOAD": ""}).stdout
    symbols = {line.split()[2].partition("@")[0]: base + int(line.split()[0], 16) for line in table.splitlines()}
    return {symbols[function]: function for function in hooked if function in symbols}


def end_of(path):
    """Of a library in memory: an unnamed mapping right after it may have more than its .bss."""
    base = min(int(begin, 16) for begin, _, _, _, other in maps if other == path)
    headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True,
                             env={**os.environ, "LD_PRELOAD": ""}).stdout
    parts = [line.split() for line in headers.splitlines() if line.split()[:1] == ["LOAD"]]
    return base + max(int(fields[2], 16) + int(fields[5], 16) for fields in parts)


owners = {"recorder": addresses("/libvramtrace.so"), "driver": addresses("/libcuda.so")}
kept, path_before = {owner: set() for owner in owners}, ""
with open("/proc/self/mem", "rb", 0) as memory:
    for begin, end, rights, _, path in maps:
        # .bss has no name: it comes right after its library's last mapping.
        if rights.startswith("rw") and (part in path or (not path and part in path_before)):
            memory.seek(int(begin, 16))
            words = memory.read(max(0, min(int(end, 16), end_of(path or path_before)) - int(begin, 16)))
            for (word,) in struct.iter_unpack("Q", words[:len(words) // 8 * 8]):
                for owner, names in owners.items():
                    if word in names:
                        kept[owner].add(names[word])
        path_before = path or path_before
print(json.dumps({"ended": ended, **{owner: sorted(names) for owner, names in kept.items()}}), flush=True)
os._exit(0)  # what failed half-way may crash at its end, with us and without
