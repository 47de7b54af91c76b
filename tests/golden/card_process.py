"""Processes of programs/card.py, and what the report says of their card."""
import json
import shlex
import subprocess
import sys

from harness import ANALYZER, HERE, LIBRARIES, environment

MIB = 1 << 20
CARD = [sys.executable, HERE / "programs" / "card.py"]
PAUSE = "sampled"


def start(trace, *steps, libraries=None, before=(), together=(), stderr=None, **extra):
    """A process of card.py; trace None: without the recorder. `before`: words before its command. `together`: steps of another one
    that is not recorded and runs beside it in one shell."""
    env = environment(LIBRARIES["trace"] if trace else None, VRAMTRACE_OUT=trace, VRAMTRACE_STANDIN_MODULE="3MiB",
                      VRAMTRACE_STANDIN_CONTEXT="300MiB", VRAMTRACE_STANDIN_MEMORY="16GiB", **extra)
    if libraries:
        env["LD_LIBRARY_PATH"] = str(libraries)
    words = [str(part) for part in (*CARD, *steps)]
    if together:
        other = shlex.join(["env", "-u", "LD_PRELOAD", *map(str, (*CARD, *together))])
        words = ["bash", "-c", f"{other} & {shlex.join(words)}; result=$?; wait; exit $result"]
    return subprocess.Popen([*before, *words], env=env, text=True, stdout=subprocess.PIPE, stderr=stderr)


def finish(*processes):
    output = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return output


def read(trace, *options):
    report = json.loads(subprocess.check_output([ANALYZER, "report", "--json", *options, trace], text=True))
    (device,) = report["devices"]
    return device


def rows(table):
    """Bytes by kind, and of processes by pid; the sum is checked."""
    assert sum(row["bytes"] for row in table["rows"]) == table["device_bytes"]
    found = {}
    for row in table["rows"]:
        key = row.get("pid") or row["kind"]
        found[key] = found.get(key, 0) + row["bytes"]
    return found


def told(table):
    return {row["kind"]: row["bytes"] for row in table["not_counted"]}
