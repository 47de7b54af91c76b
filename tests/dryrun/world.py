#!/usr/bin/env python3
"""Prints docs/results/dryrun-world.md: one process that plays rank R of N against N real processes, over the same simulated GPUs.

    world.py [KIND:N ...] [--python PYTHON]... [--keep FOLDER]        default: every kind with 2, 4 and 8 ranks"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import dry  # noqa: E402
from helpers import PYTHON, made_here  # noqa: E402

PROGRAM, GPU = HERE / "programs" / "parallel_kinds.py", "a100-80gb"
KINDS = {"ddp": "DDP", "objects": "DDP; gloo beside NCCL, objects, uneven all_gather", "fsdp1": "FSDP1", "fsdp2": "FSDP2",
         "hsdp": "HSDP, 2 × N/2", "tp": "tensor + sequence parallel", "fsdp2_tp": "FSDP2 × tensor parallel, 2 × N/2",
         "pp_static": "pipeline 1F1B, static shapes", "pp_exchanged": "pipeline 1F1B, exchanged shapes", "cp": "context parallel"}
COUNTERS = ("peak allocated", "peak reserved", "allocations", "allocated bytes", "segments")
EVEN = ("hsdp", "fsdp2_tp")  # with four ranks at least
TIMES = {8: "0,1,3,7"}  # ranks that are played, of so many


def ranks_of(folder, command, *options):
    """{rank: counters}; and the same peaks from the traces."""
    path = folder / "counters"
    done = dry.dry(folder, [*command, PROGRAM, folder.name, path], "--gpu", options[0], "--steps", "100", *options[1:], timeout=1800,
                   OMP_NUM_THREADS="1")
    if done.status or not path.exists():
        raise RuntimeError(f"{folder}: status {done.status}\n{done.error[-3000:]}")
    counted = {}
    for line in path.read_text().splitlines():  # a rank that was played again: the last counts
        rank, *numbers = json.loads(line)
        counted[rank] = numbers
    return counted, traces_of(folder), done


def traces_of(folder):
    """{rank: [peak allocated, peak reserved]}"""
    peaks = {}
    for trace in sorted(folder.glob("x/*.vrt")):
        told = subprocess.run([dry.PROGRAM, "report", "--json", "--at", "reserved", trace], capture_output=True, text=True, check=True)
        device = json.loads(told.stdout)["devices"][0]
        peaks[int(trace.stem.split(".")[-1])] = [device["peak"]["block_bytes"], device["at"]["segment_bytes"]]
    return peaks


def compare(folder, kind, size, python=PYTHON, ranks=None):
    """(real, alone): each {rank: counters} of N processes, and of ranks that were played."""
    found = []
    ranks = ranks or TIMES.get(size, "all")
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    for name, command, options in (("real", torchrun, [f"{GPU}:{size}"]),
                                   ("alone", [python], [GPU, "--world", str(size), "--rank", ranks])):
        place = folder / name / kind
        place.mkdir(parents=True)
        (place / "x").mkdir()
        counted, traced, done = ranks_of(place, command, *options)
        told = {rank: counted[rank][:2] for rank in traced}
        if not told or told != traced:
            raise RuntimeError(f"{place}: traces {traced}, counters {told}")
        found.append(counted)
    return found[0], found[1], done


def in_words(real, alone):
    different = sorted({name for rank in alone for name, one, other in zip(COUNTERS, real[rank], alone[rank]) if one != other})
    return f"all five equal ({', '.join(map(str, sorted(alone)))})" if not different else f"**differ**: {', '.join(different)}"


HEAD = """A small language model, two steps of AdamW with clipping (`tests/dryrun/programs/parallel_kinds.py`), in each kind of parallelism.
Compared, of each rank: peak allocated, peak reserved, number of allocations, sum of their bytes, number of segments, from PyTorch's own
counters; the peaks of the traces are equal to them. In brackets: the ranks that were played. Kernels compute nothing on either side: this
shows that one process stands for N, not that the simulation is a GPU.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wanted", nargs="*", metavar="KIND:N")
    parser.add_argument("--python", action="append", metavar="PYTHON")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_intermixed_args()
    wanted = [(kind, int(size)) for kind, _, size in (word.partition(":") for word in arguments.wanted)]
    wanted = wanted or [(kind, size) for kind in KINDS for size in (2, 4, 8) if size > 2 or kind not in EVEN]
    print(made_here("A job of N on one machine: ranks that are played alone", "tests/dryrun/world.py"))
    print(HEAD)
    with tempfile.TemporaryDirectory() as temporary:
        for python in arguments.python or [PYTHON]:
            code = "import importlib.metadata as m; print(m.version('torch'))"
            version = subprocess.check_output([python, "-c", code], text=True).strip()
            print(f"PyTorch {version}\n\n| | N | peak allocated, reserved of rank 0 | |\n|---|--:|--:|---|", flush=True)
            for kind, size in wanted:
                try:
                    real, alone, _ = compare((arguments.keep or pathlib.Path(temporary)) / f"{version}-{kind}-{size}", kind, size, python)
                    peaks, words = f"{alone[0][0]:,}, {alone[0][1]:,}", in_words(real, alone)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    peaks, words = "–", "**failed**"
                    print(error, file=sys.stderr)
                print(f"| {KINDS[kind]} | {size} | {peaks} | {words} |", flush=True)
            print()


if __name__ == "__main__":
    main()
