"""Cost of the shim next to PyTorch's own memory history, in one run: variants take turns, medians are compared.

    tests/bench/run.py [--rounds 7] [--markdown FILE]

Needs VRAMTRACE_BUILD (build folder), VRAMTRACE_PYTHON (a Python with torch) and, without a GPU, the stand-in's
run.sh in VRAMTRACE_RUN. Benchmarks are not tests: nothing here fails on a slow machine.
"""
import argparse
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parents[1] / "build")).resolve()
PYTHON = os.environ.get("VRAMTRACE_PYTHON", "python3")
RUN = shlex.split(os.environ.get("VRAMTRACE_RUN", ""))
LIBRARY = BUILD / "preload" / "libvramtrace.so"
PROGRAM = BUILD / "analyzer" / "vramtrace"

VARIANTS = {
    "nothing": ([], {}),
    "PyTorch history, stacks=python": (["--history", "python"], {}),
    "PyTorch history, stacks=all": (["--history", "all"], {}),
    "vramtrace, Python stacks": ([], {"VRAMTRACE_NATIVE_STACKS": "0"}),
    "vramtrace, native and Python stacks": ([], {"VRAMTRACE_NATIVE_STACKS": "1"}),
}


def measure(script, variant, folder, *more):
    arguments, settings = VARIANTS[variant]
    arguments = [*arguments, *more]
    environment = dict(os.environ)
    if settings:
        environment.update(settings, VRAMTRACE_OUT=str(folder) + "/", VRAMTRACE_QUIET="1")
        command = [*RUN, "env", f"LD_PRELOAD={LIBRARY}", PYTHON, str(HERE / script), *arguments]
    else:
        command = [*RUN, PYTHON, str(HERE / script), *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    for trace in pathlib.Path(folder).glob("*.vrt"):
        trace.unlink()
    return float(result.stdout.split()[-1])


FRAMES = (3, 23, 60)  # Python frames above an allocation


def medians(script, rounds, folder, *more):
    seen = {variant: [] for variant in VARIANTS}
    for _ in range(rounds):
        for variant in VARIANTS:
            seen[variant].append(measure(script, variant, folder, *more))
    return {variant: statistics.median(values) for variant, values in seen.items()}


def cpu_figures(rounds, folder):
    """Extra cost of a CPU-only step under the shim in percent, before the first CUDA event and after it."""
    added = []
    for more in ((), ("--session",)):
        pairs = [[measure("cpu_step.py", variant, folder, *more) for variant in ("nothing", list(VARIANTS)[-1])]
                 for _ in range(rounds)]
        added.append((statistics.median(traced / bare for bare, traced in pairs) - 1) * 100)
    return added


def trace_figures(folder):
    """Bytes per event on disk, the time of a report and of inspections, from many steps of the AMP training."""
    trace = pathlib.Path(folder) / "large.vrt"
    environment = dict(os.environ, VRAMTRACE_OUT=str(trace), VRAMTRACE_QUIET="1")
    started = time.perf_counter()
    subprocess.run([*RUN, "env", f"LD_PRELOAD={LIBRARY}", PYTHON, str(HERE / "train_step.py"), "--steps", "470"],
                   env=environment, capture_output=True, text=True, check=True)
    run_seconds = time.perf_counter() - started
    information = json.loads(subprocess.check_output([str(PROGRAM), "info", "--json", str(trace)]))
    events = information["trace"]["events"]
    inspections = information["looks"]["count"], information["looks"]["duration_ns"] / 1e9, run_seconds
    times = []
    for _ in range(7):
        started = time.perf_counter()
        subprocess.run([str(PROGRAM), "report", str(trace)], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - started)
    on_disk = trace.stat().st_blocks * 512
    trace.unlink()
    return events, on_disk / events, statistics.median(times), inspections


def table(pairs, step, cpu, events, bytes_per_event, seconds, inspections):
    base_step = step["nothing"]
    lines = ["| alloc + free below so many Python frames | " + " | ".join(f"{frames} | of stacks=all" for frames in FRAMES) + " |",
             "|---|" + "--:|" * 2 * len(FRAMES)]
    for variant in VARIANTS:
        cells = []
        for frames in FRAMES:
            base, all_stacks = pairs[frames]["nothing"], pairs[frames]["PyTorch history, stacks=all"]
            added = pairs[frames][variant] - base
            cells.append(f"{base:.2f} µs | " if variant == "nothing" else f"+{added:.2f} µs | {added / (all_stacks - base):.2f}")
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    lines += ["", "| | AMP step | slower than bare |", "|---|--:|--:|", f"| nothing | {base_step:.2f} ms | |"]
    lines += [f"| {variant} | +{step[variant] - base_step:.2f} ms | {(step[variant] / base_step - 1) * 100:.1f} % |"
              for variant in VARIANTS if variant != "nothing"]
    lines += ["", f"A step on the CPU (small layers): {cpu[0]:+.1f} % before the process's first CUDA event, "
                  f"{cpu[1]:+.1f} % after it.",
              "", f"Trace of {events:,} events: {bytes_per_event:.1f} bytes per event on disk; "
                  f"`vramtrace report` takes {seconds:.2f} s.",
              "", f"Inspections of live objects: {inspections[0]} in {inspections[1] * 1000:.0f} ms of a run of "
                  f"{inspections[2]:.1f} s, {inspections[1] / inspections[2] * 100:.2f} %."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pairs = {frames: medians("one_tensor.py", arguments.rounds, folder, "--frames", str(frames)) for frames in FRAMES}
        step = medians("train_step.py", arguments.rounds, folder)
        text = table(pairs, step, cpu_figures(arguments.rounds, folder), *trace_figures(folder))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n\n{text}")
    if arguments.markdown:
        arguments.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
