"""A process that allocates for long, recorded in flight mode: its trace stays below the limit, its memory stays the same, and
what is alive at the end is there. Prints a line every minute, and at the end a line of JSON.

    tests/bench/soak.py [--seconds 3600] [--rate 2000000] [--threads 2] [--limit 64MiB]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, ENVIRONMENT, LIBRARY, RUN, info, report, vramtrace  # noqa: E402



def resident_bytes(pid):
    """Of the process: its private memory, without the ring, which is shared."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid):
    """By thread name: those of the recorder have its name."""
    used = {"vramtrace": 0.0, "others": 0.0}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            name, text = (task / "stat").read_text().rpartition(")")[::2]
        except OSError:
            continue
        fields = text.split()
        used["vramtrace" if "(vramtrace" in name else "others"] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def soak(folder, seconds, rate, threads, limit, tell=lambda text: None):
    trace = pathlib.Path(folder) / "soak.vrt"
    process = subprocess.Popen([*RUN, "env", f"LD_PRELOAD={LIBRARY}", BUILD / "tests/bench/bench_soak",
                                *map(str, (threads, seconds, rate))],
                               env={**ENVIRONMENT, "VRAMTRACE_OUT": str(trace), "VRAMTRACE_MODE": "flight", "VRAMTRACE_LIMIT": limit,
                                    "VRAMTRACE_QUIET": "1"}, stdout=subprocess.PIPE, text=True)
    began, disk, memory, cpu = time.monotonic(), [], [], {}
    while process.poll() is None:
        time.sleep(0.25)
        try:
            memory.append(resident_bytes(process.pid))
            disk.append(max(trace.stat().st_size, trace.stat().st_blocks * 512))
            cpu = max(cpu, cpu_seconds(process.pid), key=lambda used: used.get("others", 0))
        except OSError:
            continue
        if len(memory) % 240 == 0:
            tell(f"{time.monotonic() - began:6.0f} s  {disk[-1] / 2**20:7.1f} MiB on disk  {memory[-1] / 2**20:6.1f} MiB of memory")
    made, alive = map(int, process.stdout.read().split())
    seen = info(trace)
    blocks = report(trace, "--at", "end")["devices"][0]["at"]["block_bytes"]
    vramtrace("info", "--verify", trace)
    memory = list(filter(None, memory))  # without what is read of a process that has just ended
    quarter = len(memory) // 4  # the least of each: between compactions, which a sample meets or misses
    return {"seconds": round(time.monotonic() - began, 1), "events": made, "recorded": seen["trace"]["events"],
            "dropped": seen["trace"]["dropped"], "unkept": seen["trace"].get("unkept", 0), "alive_bytes": alive,
            "alive_in_trace_bytes": blocks, "disk_maximum_bytes": max(disk), "disk_end_bytes": disk[-1],
            "memory_first_quarter_bytes": min(memory[quarter // 2:quarter] or memory), "memory_last_quarter_bytes": min(memory[-quarter:]),
            "memory_maximum_bytes": max(memory),
            "recorder_cpu_seconds": round(cpu.get("vramtrace", 0), 1), "other_cpu_seconds": round(cpu.get("others", 0), 1),
            "unknown_frees": seen["disagreements"]["unknown_frees"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--rate", type=float, default=2e6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", default="64MiB")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(soak(folder, wanted.seconds, wanted.rate, wanted.threads, wanted.limit, lambda text: print(text, flush=True))))


if __name__ == "__main__":
    main()
