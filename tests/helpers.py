"""What the tests share: where things are, how to run a program under the recorder, how to read what it recorded.

Environment: VRAMTRACE_BUILD (build folder), VRAMTRACE_PYTHON (a Python with torch; default: this one), VRAMTRACE_RUN
(command in front of programs that need the stand-in's libraries; empty on a machine with a GPU).
"""
import csv
import io
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", ROOT / "build")).resolve()
PYTHON = os.environ.get("VRAMTRACE_PYTHON", sys.executable)
RUN = shlex.split(os.environ.get("VRAMTRACE_RUN", ""))
LIBRARY = BUILD / "preload" / "libvramtrace.so"
PROGRAM = BUILD / "analyzer" / "vramtrace"
LONG = bool(os.environ.get("VRAMTRACE_LONG"))  # the corpus and fuzzing as a whole: docs/testing.md


def short(items, every=3):
    """In the short form each third of ITEMS."""
    return list(items) if LONG else list(items)[::every]


def selected(request, parameter):
    """The values of PARAMETER in the tests of the requesting file that this run has selected, each once."""
    tests = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    return list(dict.fromkeys(item.callspec.params[parameter] for item in tests if parameter in item.callspec.params))


# Given to every process: pytest changes the environment's own as each test begins and ends, and a thread that starts a
# process meanwhile hands on a pointer to what was.
ENVIRONMENT = dict(os.environ)


def made_here(what, command, conditions=None):
    """How a page of docs/results/ begins: its title, and a line with the command, date, commit, and CONDITIONS (else this machine)."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    if not conditions:
        cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                    if line.startswith("model name")), platform.machine())
        conditions = f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}"
    return f"# {what}\n\nMade by `{command}` on {time.strftime('%Y-%m-%d')}, commit {commit}, {conditions}.\n"


def versions(trace, *packages):
    """What TRACE was recorded with: Python, torch and PACKAGES in their versions, and the GPU."""
    code = ("import importlib.metadata as m, platform, sys; "
            "print('Python ', platform.python_version(), *(f', {name} {m.version(name)}' for name in sys.argv[1:]), sep='')")
    told = subprocess.run([PYTHON, "-c", code, "torch", *packages], env=ENVIRONMENT, capture_output=True, text=True,
                          check=True).stdout.strip()
    return f"{told}, {report(trace)['devices'][0]['name']}"


def run(command, trace=None, check=True, preload=True, timeout=600, **settings):
    """Runs COMMAND under the recorder; its trace goes to TRACE. SETTINGS are environment variables."""
    environment = {**ENVIRONMENT, **settings}
    if trace is not None:
        environment["VRAMTRACE_OUT"] = str(trace)
    if "PYTORCH_ALLOC_CONF" in settings:  # its name before PyTorch 2.9
        environment["PYTORCH_CUDA_ALLOC_CONF"] = settings["PYTORCH_ALLOC_CONF"]
    middle = ["env", f"LD_PRELOAD={LIBRARY}"] if preload else []
    result = subprocess.run([*RUN, *middle, *map(str, command)], env=environment, capture_output=True, text=True,
                            timeout=timeout, stdin=subprocess.DEVNULL)
    if check and result.returncode:
        raise AssertionError(f"{command} exited with {result.returncode}:\n{result.stdout}\n{result.stderr}")
    return result


def shown_bytes(size):
    """A number of bytes as reports print it: three significant digits, none after the point if it is whole."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= (1024 if units[0] == "B" else 1023.5) and len(units) > 1:
        size, units = size / 1024, units[1:]
    digits = 0 if size == int(size) or size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{size:.{digits}f} {units[0]}"


def vramtrace(*arguments, check=True, cwd=None):
    result = subprocess.run([str(PROGRAM), *map(str, arguments)], env=ENVIRONMENT, cwd=cwd, capture_output=True, text=True, timeout=300)
    if check and result.returncode:
        raise AssertionError(f"vramtrace {arguments} exited with {result.returncode}:\n{result.stderr}")
    return result


def table(trace, name):
    """The rows of one of its tables, all texts."""
    return list(csv.DictReader(io.StringIO(vramtrace("export", "--format", "csv", "--table", name, trace).stdout)))


def list_blocks(trace, *what):
    """What list_blocks.c prints: one dict per block; with "phases", per run of a phase."""
    listed = subprocess.run([BUILD / "tests" / "torch" / "list_blocks", trace, *what], env=ENVIRONMENT, capture_output=True,
                            text=True, check=True)
    return [json.loads(line) for line in listed.stdout.splitlines()]


def report(trace, *arguments):
    return json.loads(vramtrace("report", "--json", *arguments, trace).stdout)


def info(trace):
    return json.loads(vramtrace("info", "--json", trace).stdout)


def events(trace, stacks=True):
    """One dict per event, in order."""
    lines = vramtrace("info", "--events", "--json", *(["--stacks"] if stacks else []), trace).stdout.splitlines()
    return [json.loads(line) for line in lines]


LIBRARY_FILE = re.compile(r"/nvidia/.*/lib(?!cudart)\w+\.so")


def library_bytes(trace, last_event):
    """What cuBLAS, cuDNN and the like hold at an event that they took from the driver themselves (not over the stand-in)."""
    held = {}
    for event in events(trace)[:last_event + 1]:
        if event["layer"] != "driver" or "host" in event["flags"]:
            continue
        if event["kind"] == "alloc" and event["stack"] and LIBRARY_FILE.search(event["stack"][0]["module"]):
            held[event["address"]] = event["bytes"]
        elif event["kind"] == "free":
            held.pop(event["address"], None)
    return sum(held.values())
