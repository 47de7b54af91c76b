"""What recording costs a program of JAX and one of TensorFlow: pairs of runs without and with it, in turns.

    tests/bench/frameworks.py [--pairs 12] [--steps 400] [--markdown FILE]

Needs VRAMTRACE_BUILD, the environments of `tests/setup.sh setup_frameworks`, a Python with pytest, and without a GPU the stand-in's
run.sh in VRAMTRACE_RUN. Benchmarks are not tests: nothing here fails on a slow machine.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "frameworks"))
import support  # noqa: E402
import test_jax  # noqa: E402
import test_tensorflow  # noqa: E402

PROGRAM = HERE / "framework_step.py"
WHAT = ("step_ms", "step_cpu_ms", "start_s", "start_cpu_s")
# Name → framework, arguments after the number of steps, settings.
FRAMEWORKS = {
    "jax": (test_jax.jax, ["stand-in"] if support.RUN else [], {**test_jax.NAMES, "VRAMTRACE_STANDIN_DEVICES": "1", **test_jax.libraries}),
    "tensorflow": (test_tensorflow.tensorflow, [], {}),
}


def version(framework, package):
    found = next(iter(importlib.metadata.distributions(name=package, path=[str(framework.packages)])))
    return f"{found.metadata['Name']} {found.version}"


def events_per_step(trace, steps):
    """Of those between the program's two marks."""
    lines = subprocess.run([support.BUILD / "analyzer/vramtrace", "info", "--json", "--events", trace], check=True,
                           capture_output=True, text=True)
    marks = [event["index"] for event in map(json.loads, lines.stdout.splitlines()) if event["kind"] == "mark"]
    return (marks[1] - marks[0] - 1) / steps


def pair(name, steps, folder, recorded_first):
    """({} of the bare run, {} of the recorded one, events of a step)"""
    framework, more, settings = FRAMEWORKS[name]
    trace = folder / "run.vrt"
    told = {}
    for preload in (recorded_first, not recorded_first):
        told[preload] = framework.run(PROGRAM, trace, name, steps, *more, preload=preload, **settings)
    return told[False], told[True], events_per_step(trace, steps)


def table(name, pairs, steps):
    with tempfile.TemporaryDirectory() as folder:
        seen = [pair(name, steps, pathlib.Path(folder), number % 2 == 1) for number in range(pairs)]

    def median(side, what):
        return statistics.median(run[side][what] for run in seen)

    def ratio(what):
        ratios = sorted(with_us[what] / bare[what] for bare, with_us, _ in seen)
        return f"{statistics.median(ratios):.3f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"
    events = statistics.median(run[2] for run in seen)
    added_us = statistics.median((with_us["step_cpu_ms"] - bare["step_cpu_ms"]) * 1000 for bare, with_us, _ in seen)
    return (f"| {version(FRAMEWORKS[name][0], name)} | {median(0, 'step_ms'):.2f} | {ratio('step_ms')} | {median(0, 'step_cpu_ms'):.2f} "
            f"| {ratio('step_cpu_ms')} | {events:.0f} | {added_us / events:.2f} | {median(0, 'start_s'):.2f}, "
            f"{median(0, 'start_cpu_s'):.2f} | {ratio('start_s')}, {ratio('start_cpu_s')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    load = [os.getloadavg()[0]]
    lines = ["| | step, ms | with vramtrace | CPU time of a step, ms | with vramtrace | events of a step | CPU time of an event, µs "
             "| start, s: elapsed, CPU | with vramtrace |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, (framework, _, _) in FRAMEWORKS.items():
        if framework.there and (name != "jax" or test_jax.libraries):
            lines.append(table(name, arguments.pairs, arguments.steps))
            print(lines[-1], flush=True)
    load.append(os.getloadavg()[0])
    text = [f"{platform.machine()}, {os.cpu_count()} cores, load {load[0]:.1f} to {load[1]:.1f}, "
            f"{arguments.pairs} pairs of {arguments.steps} steps",
            "", *lines]
    print("\n".join(text))
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
