"""How many instructions a recorded event takes, counted by valgrind: the same on a busy machine as on a quiet one.

    tests/bench/instructions.py [PYTHON]
    tests/bench/instructions.py peers [PYTHON]     what each recorder adds to PyTorch's own, in all threads (10 minutes)
    tests/bench/instructions.py steps [PYTHON]     what recording adds to a whole training step (10 minutes)

Prints them per pair of allocation and free, for several depths of Python frames, warmed up (two runs of different length are
subtracted). Needs VRAMTRACE_BUILD, VRAMTRACE_RUN (the stand-in's run.sh) and valgrind; for peers, a Python with PyTorch.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("VRAMTRACE_BUILD", HERE.parents[1] / "build")).resolve()
RUN = shlex.split(os.environ.get("VRAMTRACE_RUN", ""))
LIBRARY = BUILD / "preload/libvramtrace.so"
KINDS, FRAMES, PAIRS = ("driver", "block"), (3, 23, 60), (200, 1200)
TENSORS = 500, 2500
BLOCKS = BUILD / "tests/bench/libbench_seam.so"


def collected(options, program, folder, recorded=True, told="\n"):
    """The instructions that callgrind says it counted, in all threads."""
    environment = dict(os.environ, VRAMTRACE_OUT=f"{folder}/", VRAMTRACE_QUIET="1", VRAMTRACE_INSPECT="0", ATEN_CPU_CAPABILITY="default")
    preload = ["env", f"LD_PRELOAD={LIBRARY}"] if recorded else []
    done = subprocess.run([*RUN, *preload, "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counts", *options,
                           *map(str, program)], env=environment, input=told, capture_output=True, text=True, timeout=1200)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise RuntimeError(done.stderr[-2000:])
    return int(found[1])


def count(kind, frames, pairs, python, folder):
    """Instructions within vt_record in a whole run."""
    return collected(["--toggle-collect=vt_record"], [python, HERE / "deep_calls.py", kind, frames, pairs, BLOCKS], folder)


def per_pair(kind, frames, python):
    with tempfile.TemporaryDirectory() as folder:
        less, more = (count(kind, frames, pairs, python, folder) for pairs in PAIRS)
    return (more - less) / (PAIRS[1] - PAIRS[0])


def count_tensors(recorder, frames, pairs, python, folder):
    """Instructions while a tensor is made and freed so many times."""
    program = [python, HERE / "one_tensor.py", "--counted", "--frames", frames, "--pairs", pairs]
    program += ["--recorder", recorder] if recorder in ("python", "all") else []
    return collected(["--instr-atstart=no"], program, folder, recorder == "vramtrace")


def peers(python):
    print("| Python frames | recorder | added instructions | of stacks=all |\n|--:|---|--:|--:|")
    for frames in FRAMES[1:]:
        each = {}
        for recorder in ("nothing", "all", "python", "vramtrace"):
            with tempfile.TemporaryDirectory() as folder:
                less, more = (count_tensors(recorder, frames, pairs, python, folder) for pairs in TENSORS)
            each[recorder] = (more - less) / (TENSORS[1] - TENSORS[0]) - each.get("nothing", 0)
            name = recorder if recorder == "vramtrace" else f"PyTorch history, stacks={recorder}"
            if recorder != "nothing":
                print(f"| {frames} | {name} | {each[recorder]:,.0f} | {each[recorder] / each['all']:.2f} |", flush=True)


def steps(python):
    """By thread, since the recorder's own one works on another core."""
    print("| model | instructions of a step | added in the program's threads | in the recorder's |\n|---|--:|--:|--:|")
    for model in "amp", "resnet50", "gpt2":
        each = {}
        for recorded in False, True:
            with tempfile.TemporaryDirectory() as folder:
                collected(["--instr-atstart=no", "--separate-threads=yes"],
                          [python, HERE / "train_step.py", "--counted", "--model", model], folder, recorded, "early\n\nlast\n")
                texts = [file.read_text() for file in pathlib.Path(folder).glob("counts-*")]
            each[recorded] = [sum(int(re.search(r"^totals: (\d+)", text, re.M)[1]) for text in texts
                                  if ("libtorch" in text) == whose) for whose in (True, False)]
        bare = each[False][0]
        ours, writers = ((each[True][which] - each[False][which]) / bare * 100 for which in (0, 1))
        print(f"| {model} | {bare / 5:,.0f} | {ours:+.1f} % | {writers:+.1f} % |", flush=True)


def main():
    arguments = sys.argv[1:]
    if arguments[:1] in (["peers"], ["steps"]):
        return {"peers": peers, "steps": steps}[arguments[0]](arguments[1] if arguments[1:] else sys.executable)
    python = arguments[0] if arguments else sys.executable
    for kind in KINDS:
        for frames in FRAMES:
            print(f"{kind:8}{frames:4} frames {per_pair(kind, frames, python):8.0f} instructions", flush=True)


if __name__ == "__main__":
    main()
