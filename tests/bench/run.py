"""What vramtrace costs, next to what others cost: variants take turns, medians are compared.

    tests/bench/run.py [--rounds 7] [--only TABLE,…] [--against BUILD] [--markdown FILE]

Tables: pair threads step life bytes. Needs VRAMTRACE_BUILD (build folder), VRAMTRACE_PYTHON (a Python with torch) and,
without a GPU, the stand-in's run.sh in VRAMTRACE_RUN. --against: BUILD's recorder takes turns, too, in pair and step. Benchmarks
are not tests: nothing here fails on a slow machine.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import random
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from helpers import BUILD, LIBRARY, PROGRAM, PYTHON, RUN, made_here  # noqa: E402

THREADS = BUILD / "tests/bench/bench_threads"

OURS = "vramtrace, native and Python stacks"
# Name → arguments of a program here, settings of the recorder (None: without it). LIBRARY: another one.
RECORDERS: dict = {
    "nothing": ((), None),
    "PyTorch history, stacks=python": (("--recorder", "python"), None),
    "PyTorch history, stacks=all": (("--recorder", "all"), None),
    "torch.profiler, memory and stacks": (("--recorder", "profiler"), None),
    "vramtrace, Python stacks": ((), {"VRAMTRACE_NATIVE_STACKS": "0"}),
    OURS: ((), {}),
}
FRAMES = 3, 23, 60
MODELS = {"amp": "AMP transformer", "resnet50": "ResNet-50", "gpt2": "GPT-2"}
THREAD_COUNTS = 1, 2, 4, 8, 16
# Steps of a short and of a long run.
STEPS = 20, 400
# Of a table whose programs run all at once and wait for their turn: rounds for each one of --rounds, and those before them.
TURNS, EARLY_TURNS = 8, 4


# ---- running ----

def command(program, settings, folder):
    """The command line, and its environment with or without the recorder."""
    if settings is None:
        return [*RUN, *program], dict(os.environ)
    environment = {**os.environ, "VRAMTRACE_OUT": f"{folder}/", "VRAMTRACE_QUIET": "1", **settings}
    library = environment.pop("LIBRARY", LIBRARY)
    return [*RUN, "env", f"LD_PRELOAD={library}", *program], environment


def numbers_in(text):
    """Those of the last line that has nothing else."""
    for line in reversed(text.splitlines()):
        if re.fullmatch(r"[-\d. ]+", line):
            return [float(part) for part in line.split()]
    raise SystemExit(f"no numbers in: {text}")


def said(program, settings, folder, keep=False):
    """The numbers that the program prints."""
    line, environment = command([str(part) for part in program], settings, folder)
    done = subprocess.run(line, env=environment, input="\n", capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(line)}:\n{done.stdout}{done.stderr}")
    for trace in pathlib.Path(folder).glob("*.vrt"):
        if not keep:
            trace.unlink()
    return numbers_in(done.stdout)


def in_turns(measures, rounds):
    """Name → the values of all rounds, from name → function."""
    seen = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            seen[name].append(measure())
    return seen


def rounds_of(program, recorders, rounds, folder):
    """Name → rows of numbers that PROGRAM says for each line of input, with each of RECORDERS. All run at once, and one at a time
    does something for milliseconds: whatever slows the machine down meets all alike."""
    with contextlib.ExitStack() as ending:
        asked = {}
        for name, (arguments, settings) in recorders.items():
            line, environment = command([str(part) for part in [*program, *arguments]], settings, folder)
            asked[name] = ending.enter_context(subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                                stderr=sys.stderr, text=True, bufsize=1))

        def said_by(name):
            asked[name].stdin.write("\n")
            if not (line := asked[name].stdout.readline()):
                sys.exit(f"{name} ended: {asked[name].args!r}")
            return [float(part) for part in line.split()]
        for name in list(asked) * EARLY_TURNS:
            said_by(name)
        seen = {name: [] for name in asked}
        for _ in range(rounds * TURNS):
            for name in random.sample(list(asked), len(asked)):
                seen[name].append(said_by(name))
    for trace in pathlib.Path(folder).glob("*.vrt"):
        trace.unlink()
    return seen


def middle(values):
    return statistics.median(values)


def half_of(values):
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.2f} to {high:.2f}"


# ---- the tables ----

def pair(rounds, folder):
    """One allocation and its free, by depth of the Python stack."""
    lines = ["| Python frames | | alloc + free, µs | half of all rounds | added | of stacks=all | of stacks=python |",
             "|--:|---|--:|--:|--:|--:|--:|"]
    for frames in FRAMES:
        seen = {name: [micros for micros, in rows] for name, rows in rounds_of(
            [PYTHON, HERE / "one_tensor.py", "--frames", frames], RECORDERS, rounds, folder).items()}
        added = {name: middle([value - bare for value, bare in zip(values, seen["nothing"])]) for name, values in seen.items()}
        for name, values in seen.items():
            ratios = ["" if name == "nothing" else f"{added[name] / added[f'PyTorch history, stacks={what}']:.2f}"
                      for what in ("all", "python")]
            times = f"{middle(values):.2f} | {half_of(values)} | {added[name]:.2f}"
            lines.append(f"| {frames} | {name} | {times} | {ratios[0]} | {ratios[1]} |")
    return lines


def threads(rounds, folder):
    """Allocations of a program without Python, by number of threads; heaptrack records malloc instead."""
    heaptrack = ["heaptrack", "-r", "-o", f"{folder}/heaptrack"]
    rows: dict = {"framework's block": ((), "block", None), "… with vramtrace": ((), "block", {}),
                  "cuMemAlloc + cuMemFree": ((), "driver", None), "…  with vramtrace": ((), "driver", {}),
                  "malloc + free": ((), "malloc", None)}
    if shutil.which("heaptrack"):
        rows["… with heaptrack"] = heaptrack, "malloc", None
    seen = {}
    for count in THREAD_COUNTS:
        for name, values in in_turns({name: lambda before=before, kind=kind, settings=settings: said(
                [*before, THREADS, kind, count, 200_000 // count], settings, folder)[0]
                for name, (before, kind, settings) in rows.items()}, rounds).items():
            seen[name, count] = middle(values)
        for file in pathlib.Path(folder).glob("heaptrack*"):
            file.unlink()
    lines = ["| ns for each pair of a thread, with threads: | " + " | ".join(map(str, THREAD_COUNTS)) + " |",
             "|---" * (len(THREAD_COUNTS) + 1) + "|"]
    return lines + [f"| {name} | " + " | ".join(f"{seen[name, count]:.0f}" for count in THREAD_COUNTS) + " |" for name in rows]


def step(rounds, folder):
    """A whole training step, and resident memory."""
    lines = ["| model | | step, ms | slower than bare | half of all rounds, % | resident memory added, MiB |",
             "|---|---|--:|--:|--:|--:|"]
    for model, title in MODELS.items():
        seen = rounds_of([PYTHON, HERE / "train_step.py", "--model", model], RECORDERS, rounds, folder)
        bare, resident = ([row[i] for row in seen["nothing"]] for i in (0, 1))
        for name, rows in seen.items():
            times = [row[0] for row in rows]
            slower = [(mine / other - 1) * 100 for mine, other in zip(times, bare)]
            told = " | " if name == "nothing" else f"{middle(slower):+.1f} % | {half_of(slower)}"
            lines.append(f"| {title} | {name} | {middle(times):.2f} | {told} | {rows[-1][1] - resident[-1]:+.0f} |")
    added = []
    for more in ((), ("--session",)):
        seen = rounds_of([PYTHON, HERE / "cpu_step.py", *more], {"nothing": RECORDERS["nothing"], OURS: RECORDERS[OURS]}, rounds, folder)
        added.append(middle([(ours / bare - 1) * 100 for (ours,), (bare,) in zip(seen[OURS], seen["nothing"])]))
    return lines + ["", f"A step on the CPU (small layers): {added[0]:+.1f} % before the process's first CUDA event, "
                    f"{added[1]:+.1f} % after it."]


def life(rounds, folder):
    """Start and end of a process."""
    def wall(program, settings, count):
        environment = dict(os.environ) if settings is None else {**os.environ, "LD_PRELOAD": str(LIBRARY)}
        started = time.perf_counter()
        for _ in range(count):
            subprocess.run(program, env=environment, check=True)
        return (time.perf_counter() - started) / count * 1000

    def after_main(settings):
        ended = said([THREADS, "block", 2, 1_000_000], settings, folder)[1]
        return (time.clock_gettime(time.CLOCK_MONOTONIC) - ended) * 1000

    lines = ["| | bare, ms | with vramtrace, ms | added, ms |", "|---|--:|--:|--:|"]
    measures = {
        "`true`, which never meets CUDA": lambda settings: wall(["true"], settings, 200),
        "`python -c pass`": lambda settings: wall([PYTHON, "-c", "pass"], settings, 20),
        "from main's end to the process's, after 4 million events": after_main,
    }
    for title, measure in measures.items():
        seen = in_turns({"bare": lambda: measure(None), "ours": lambda: measure({})}, rounds)
        bare, ours = middle(seen["bare"]), middle(seen["ours"])
        lines.append(f"| {title} | {bare:.2f} | {ours:.2f} | {ours - bare:+.2f} |")
    return lines


def size(_rounds, folder):
    """Bytes of trace for each event."""
    lines = ["| training | steps | events | trace file, MiB | bytes per event | inspections | of the run's time |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    for model, title in MODELS.items():
        for steps in STEPS:
            started = time.perf_counter()
            said([PYTHON, HERE / "train_step.py", "--model", model, "--steps", steps], {}, folder, keep=True)
            seconds = time.perf_counter() - started
            trace, = pathlib.Path(folder).glob("*.vrt")
            told = json.loads(subprocess.check_output([PROGRAM, "info", "--json", trace]))
            events, on_disk = told["trace"]["events"], trace.stat().st_blocks * 512
            looks = told["inspections"]
            lines.append(f"| {title} | {steps} | {events:,} | {on_disk / 2**20:.2f} | {on_disk / events:.2f} | {looks['count']} "
                         f"| {looks['duration_ns'] / 1e7 / seconds:.2f} % |")
            trace.unlink()
    return lines


TABLES = {"pair": pair, "threads": threads, "step": step, "life": life, "bytes": size}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(TABLES))
    parser.add_argument("--against", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only if name not in TABLES]
    if unknown:
        parser.error(f"no table {unknown[0]!r}; there are {', '.join(TABLES)}")
    if arguments.against:
        RECORDERS[f"vramtrace of {arguments.against}"] = (), {"LIBRARY": arguments.against.resolve() / "preload/libvramtrace.so"}
    text = [made_here("What recording costs, next to PyTorch's own recorder", f"tests/bench/run.sh --rounds {arguments.rounds}"),
            f"Python {platform.python_version()}; medians of {arguments.rounds} rounds."]
    print("\n".join(text), flush=True)
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as folder:
            lines = ["", f"{TABLES[name].__doc__}", "", *TABLES[name](arguments.rounds, folder)]
        print("\n".join(lines), flush=True)
        text += lines
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    sys.exit(main())
