#!/usr/bin/env python3
"""Runs the parts on a card and writes what they showed: run.py OUT [--part NAME]... [--minutes 12] [--patience 1] [--jobs 4]

Each part is a process of its own with a limit; one that fails or hangs stops no other. --patience multiplies the limits (a
slow machine). SIGTERM or SIGINT ends the parts that run, leaves out the rest, and writes what there is. Exit status: 0 if no part
failed, 1 if one did, 2 if nothing can run here."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "golden")]
import figures  # noqa: E402
import preflight  # noqa: E402
import results  # noqa: E402
from helpers import RUN  # noqa: E402
from parts import NO_STANDIN, PARTS  # noqa: E402

ARCHIVE_SECONDS = 25  # that the traces' archive needs at the end
LEAST_SECONDS = 10  # a part with less time than this is not begun
# Of the same session, so that who ends this program's session ends its parts.
OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}


def run_one(name, folder, seconds):
    """In a process of its own: the part itself."""
    part = next(part for part in PARTS if part.name == name)
    rows, state, reason = figures.Figures(folder / "figures.rows", seconds), "passed", ""
    try:
        part.load()(rows, folder)
        if rows.failed:
            state, reason = "failed", f"{rows.failed} of its figures"
    except figures.NotRun as why:
        state, reason = "not run", str(why)
    except Exception as error:
        traceback.print_exc()
        state, reason = "failed", f"{type(error).__name__}: {error}"
    (folder / "state").write_text(json.dumps({"state": state, "reason": reason[:1000]}))


def lacking(part, has):
    need = next((need for need in part.needs if need not in has), None)
    if need is None:
        return None
    return "needs a GPU" if need == NO_STANDIN else f"{need} is missing"


def end(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_part(part, root, seconds, running):
    """Starts it, waits, and ends all that it left running. RUNNING: the groups of processes now."""
    folder, started = root / part.name, time.monotonic()
    folder.mkdir()
    with open(folder / "part.log", "w") as log:
        child = subprocess.Popen([sys.executable, __file__, str(folder), "--in-process", part.name,
                                  "--seconds", str(seconds)], stdout=log, stderr=log,
                                 stdin=subprocess.DEVNULL, **OWN_GROUP)
        running.add(child.pid)
        try:
            child.wait(seconds)
            told = {"state": "failed", "reason": f"the part's own process ended with {child.returncode}"}
        except subprocess.TimeoutExpired:
            told = {"state": "failed", "reason": f"no end within {seconds:.0f} s"}
        end(child.pid)
        child.wait()
        running.discard(child.pid)
    if (folder / "state").exists() and child.returncode == 0:
        told = json.loads((folder / "state").read_text())
    return {"name": part.name, "what": part.what, **told, "seconds": time.monotonic() - started,
            "rows": figures.read_rows(folder / "figures.rows")}


class Run:
    def __init__(self, arguments, root):
        self.out, self.root, self.patience, self.jobs = arguments.out, root, arguments.patience, arguments.jobs
        self.deadline = time.monotonic() + arguments.minutes * 60 - ARCHIVE_SECONDS
        self.facts, self.missing, self.has, self.usable = preflight.look()
        self.title = f"Rehearsal over the stand-in, {self.facts['date']}" if RUN else f"On a GPU, {self.facts['date']}"
        self.done, self.running = [], set()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)

    def stop(self, *_):
        self.deadline = 0
        for group in list(self.running):
            end(group)

    def add(self, one):
        self.done.append(one)
        order = [part.name for part in PARTS]
        self.done.sort(key=lambda one: order.index(one["name"]))
        print(f"{one['name']:18} {one['seconds']:5.1f} s  {results.verdict(one)}", flush=True)
        results.write(self.out, self.title, self.facts, self.missing, self.done)

    def not_run(self, part, reason):
        self.add({"name": part.name, "what": part.what, "state": "not run", "reason": reason, "seconds": 0, "rows": []})

    def start(self, part):
        left = self.deadline - time.monotonic()
        if (why := lacking(part, self.has)) is not None:
            return self.not_run(part, why)
        if left < LEAST_SECONDS:
            return self.not_run(part, "no time was left")
        return self.add(run_part(part, self.root, min(part.seconds * self.patience, left), self.running))

    def all(self, parts):
        """Those that may run beside others run together, where they stand in the table."""
        waiting = []
        for part in [*parts, None]:
            if part is not None and not part.alone:
                waiting.append(part)
                continue
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                list(pool.map(self.start, waiting))
            waiting = []
            if part is not None:
                self.start(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS], default=[])
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--patience", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=max(1, min(6, (os.cpu_count() or 1) // 2)))
    parser.add_argument("--in-process", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.in_process:
        return run_one(arguments.in_process, arguments.out, arguments.seconds)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vramtrace-gpu-") as root:
        one = Run(arguments, pathlib.Path(root))
        for name, text in one.facts.items():
            print(f"{name:22} {text}", flush=True)
        print(f"{'missing':22} {', '.join(one.missing) or 'nothing'}", flush=True)
        results.write(one.out, one.title, one.facts, one.missing, [])
        if not one.usable:
            print("run.py: no CUDA driver, or the recorder does not load here (see above)", file=sys.stderr)
            return 2
        one.all([part for part in PARTS if not arguments.part or part.name in arguments.part])
        left_out = results.keep_traces(one.out, one.root)
    print(f"{results.summary(one.done)}; {one.out}/gpu-results.md" + (f"; traces left out: {', '.join(left_out)}" if left_out else ""))
    return 1 if any(part["state"] == "failed" for part in one.done) else 0


if __name__ == "__main__":
    sys.exit(main())
