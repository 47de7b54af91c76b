#!/usr/bin/env python3
"""How long single calls take while another process writes and syncs on the trace's disk.

    stall.py FOLDER [NAME=LIBRARY...]

FOLDER lies on the disk; its files are removed. Without a NAME the library of this build is measured. Rounds alternate
between bare and each library; the table has each one's medians, and the worst of all rounds.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", ROOT / "build")).resolve()
ROUNDS, SECONDS, PIECE, PIECES = int(os.environ.get("VRAMTRACE_ROUNDS", "5")), 8, b"x" * (1 << 20), 8


def press(folder, stop):
    path = folder / "pressure"
    while not stop.is_set():
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for _ in range(PIECES):
            os.write(file, PIECE)
            os.fsync(file)
        os.close(file)
        subprocess.run(["sync", "-f", folder], check=False)
    path.unlink(missing_ok=True)


def measure(folder, library):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "simulate"), "VRAMTRACE_QUIET": "1",
                   "VRAMTRACE_OUT": str(folder / "stall.vrt")}
    if library:
        environment["LD_PRELOAD"] = str(library)
    done = subprocess.run([BUILD / "tests" / "bench" / "stall", str(SECONDS)], env=environment, capture_output=True, text=True,
                          check=True)
    for trace in folder.glob("stall*.vrt"):
        trace.unlink()
    return [float(word) for word in done.stdout.split()]


def main():
    folder = pathlib.Path(sys.argv[1])
    libraries = dict(word.split("=", 1) for word in sys.argv[2:]) or {"vramtrace": str(BUILD / "preload" / "libvramtrace.so")}
    variants = {"nothing": None, **libraries}
    stop = threading.Event()
    presser = threading.Thread(target=press, args=(folder, stop))
    presser.start()
    try:
        rounds = [{name: measure(folder, library) for name, library in variants.items()} for _ in range(ROUNDS)]
    finally:
        stop.set()
        presser.join()
    print("| | pairs | p50 | p99.9 | longest | over 1 ms | waits | page faults |\n|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in variants:
        pairs, p50, p999, longest, over, waited, faults = zip(*(figures[name] for figures in rounds))
        print(f"| {name} | {sum(pairs):,.0f} | {statistics.median(p50):.2f} µs | {statistics.median(p999):.1f} µs | "
              f"{max(longest) / 1000:.2f} ms | {sum(over):.0f} | {sum(waited):.0f} | {sum(faults):.0f} |")


if __name__ == "__main__":
    main()
