#!/usr/bin/env python3
"""Time and memory of commands on long traces, as recorded: tests/bench/long.py [--kinds NAME,…] [--millions N,…] [--markdown FILE]

A program of long_programs.py runs until it has made so many events; snapshots of its trace on the way are the shorter
traces. The tables: seconds and MiB of each command, and the digests' share of each trace. Needs what run.py needs.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import LIBRARY, PROGRAM, PYTHON, RUN, made_here  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
KINDS = "equal", "varying", "overlap", "generate", "server"
MOMENTS = "step:100", "event:{fifth}", "event:{latter}", "end"
COMMANDS = {"report": ["report"], **{f"report --at {moment}": ["report", "--at", moment] for moment in MOMENTS},
            "leaks": ["leaks"], "oom": ["oom"], "html": ["html", "-o", "{folder}/x.html"],
            "sqlite --summary": ["export", "--format", "sqlite", "--summary", "-o", "{folder}/x.sqlite"],
            "sqlite": ["export", "--format", "sqlite", "-o", "{folder}/x.sqlite"]}
MOST = {"sqlite": 4_000_000}  # events: a row for each takes 350 bytes


def record(kind, sizes, folder):
    """{events: trace}, the sizes rising."""
    trace = folder / f"{kind}.vrt"
    environment = {**os.environ, "VRAMTRACE_OUT": str(trace), "VRAMTRACE_QUIET": "1"}
    made = {}
    with subprocess.Popen([*RUN, "env", f"LD_PRELOAD={LIBRARY}", PYTHON, HERE / "long_programs.py", kind], env=environment,
                          start_new_session=True) as process:
        try:
            for size in sizes:
                while True:
                    time.sleep(0.5)
                    told = subprocess.run([PROGRAM, "top", "--json", "--once", folder], capture_output=True, text=True)
                    rows = json.loads(told.stdout)["processes"] if told.returncode == 0 and told.stdout else []
                    if process.poll() is not None:
                        raise SystemExit(f"{kind} ended by itself")
                    if rows and rows[0]["events"] >= size:
                        break
                made[size] = folder / f"{kind}.{size}.vrt"
                subprocess.run([PROGRAM, "ctl", str(trace), "snapshot", made[size]], check=True, capture_output=True)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    trace.unlink()
    return made


def measure(arguments):
    """Seconds, MiB and exit status."""
    begin = time.monotonic()
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - begin, usage.ru_maxrss / 1024, process.returncode


def shares(path):
    """Events, bytes, and of these the digests', by what format.h says of chunks."""
    data = path.read_bytes()
    at, events, whole, digests = struct.unpack_from("<Q", data, 40)[0], 0, 0, 0
    while at + 56 <= len(data):
        magic, header, stored, _, _, count = struct.unpack_from("<6I", data, at)
        if magic != 0x33435456:
            break
        level, size = struct.unpack_from("<I", data, at + 52)[0], header + stored
        events += 0 if level else count
        whole += size
        digests += size if level else 0
        at += size
    return events, whole, digests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--millions", default="0.4,4,40,100")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the traces, which stay; those in it are measured again")
    parser.add_argument("--markdown", type=argparse.FileType("w"), default=sys.stdout)
    options = parser.parse_args()
    sizes = sorted(int(float(number) * 1e6) for number in options.millions.split(","))
    names = options.commands.split(",")
    folder = pathlib.Path(tempfile.mkdtemp()) if not options.keep else options.keep
    lines = [f"| trace | events | MiB | bytes per event | digests | {' | '.join(names)} |", "|---|--:|--:|--:|--:|" + "--:|" * len(names)]
    for kind in options.kinds.split(","):
        kept = {size: folder / f"{kind}.{size}.vrt" for size in sizes}
        made = kept if all(path.exists() for path in kept.values()) else record(kind, sizes, folder)
        for size, trace in made.items():
            events, whole, digests = shares(trace)
            cells = []
            for name in names:
                if size > MOST.get(name, size):
                    cells.append("")
                    continue
                values = {"folder": folder, "fifth": size // 5, "latter": size * 3 // 4}
                seconds, mebibytes, status = measure([word.format(**values) for word in COMMANDS[name]] + [trace])
                cells.append(f"{seconds:.2f} s, {mebibytes:.0f} MiB" + (f" (status {status})" if status not in (0, 1) else ""))
                print(kind, size, name, cells[-1], file=sys.stderr, flush=True)
            size = f"{whole / 2**20:.1f} | {whole / events:.2f} | {digests / whole:.1%}"
            lines.append(f"| {kind} | {events:,} | {size} | {' | '.join(cells)} |")
            print(lines[-1], file=sys.stderr, flush=True)
            if not options.keep:
                trace.unlink()
    print(made_here("Long traces", "tests/bench/long.py " + " ".join(sys.argv[1:])), *lines, sep="\n", file=options.markdown)
    if not options.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
