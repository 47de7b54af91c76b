#!/usr/bin/env python3
"""Prints docs/results/dryrun-world.md: one process that plays rank R of N against N real processes, over the same simulated GPUs.

    world.py [KIND[,KIND...]:N ...] [--python PYTHON]... [--keep FILE] [--kept]    default: every kind with 2, 4 and 8 ranks

Kinds of one word run one after the other in the same processes.
FILE keeps results: the command goes on where it was ended; --kept only reads them."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import dry  # noqa: E402
from helpers import PYTHON, made_here  # noqa: E402

PROGRAM, GPU = HERE / "programs" / "parallel_kinds.py", "a100-80gb"
KINDS = {"ddp": "DDP", "objects": "DDP; gloo beside NCCL, objects, uneven all_gather", "fsdp1": "FSDP1", "fsdp2": "FSDP2",
         "hsdp": "HSDP, 2 × N/2", "tp": "tensor + sequence parallel", "fsdp2_tp": "FSDP2 × tensor parallel, 2 × N/2",
         "pp_static": "pipeline 1F1B, static shapes", "pp_exchanged": "pipeline 1F1B, exchanged shapes", "cp": "context parallel",
         "uneven": "DDP, batches of several sizes", "ep": "experts on all ranks, uneven routing"}
COUNTERS = ("peak allocated", "peak reserved", "allocations", "allocated bytes", "segments")
EVEN = ("hsdp", "fsdp2_tp")  # with four ranks at least
APART = ("objects", "pp_exchanged", "uneven", "ep")  # another backend; ranks that are played side by side; ranks that are not named
FOUND = ("uneven", "ep")


def groups(size):
    together = [kind for kind in KINDS if kind not in APART and (size > 2 or kind not in EVEN)]
    return [(",".join(together), size), *((kind, size) for kind in APART)]


def ranks_played(kinds, size):
    return None if kinds in FOUND else "all" if size <= 2 or kinds == "pp_exchanged" else f"0,{size // 2},{size - 1}"


def ranks_of(folder, kinds, command, *options):
    """{kind: {rank: counters}}; and the largest peaks from the traces."""
    path = folder / "counters"
    done = dry.dry(folder, [*command, PROGRAM, kinds, path], "--gpu", options[0], "--steps", "100", *options[1:], timeout=1800,
                   OMP_NUM_THREADS="1")
    if done.status or not path.exists():
        first = done.error.find("Traceback")
        raise RuntimeError(f"{folder}: status {done.status}\n{done.error[max(first, 0):][:5000]}")
    counted = {}
    for line in path.read_text().splitlines():  # a rank that was played again: the last counts
        kind, rank, *numbers = json.loads(line)
        counted.setdefault(kind, {})[rank] = numbers
    return counted, traces_of(folder), done


def traces_of(folder):
    """{rank: [peak allocated, peak reserved]}"""
    peaks = {}
    for trace in sorted(folder.glob("x/*.vrt")):
        told = subprocess.run([dry.PROGRAM, "report", "--json", "--at", "reserved", trace], capture_output=True, text=True, check=True)
        device = json.loads(told.stdout)["devices"][0]
        peaks[int(trace.stem.split(".")[-1])] = [device["peak"]["block_bytes"], device["at"]["segment_bytes"]]
    return peaks


def compare(folder, kinds, size, python=PYTHON, ranks=None):
    """(real, alone, the last run): each {kind: {rank: counters}} of N processes, and of ranks that were played."""
    found = []
    ranks = ranks or ranks_played(kinds, size)
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    for name, command, options in (("real", torchrun, [f"{GPU}:{size}"]),
                                   ("alone", [python], [GPU, "--world", str(size), *(["--rank", ranks] if ranks else [])])):
        place = folder / name
        place.mkdir(parents=True)
        (place / "x").mkdir()
        counted, traced, done = ranks_of(place, kinds, command, *options)
        told = {rank: [max(numbers[rank][i] for numbers in counted.values()) for i in (0, 1)] for rank in traced}
        if not told or told != traced:
            raise RuntimeError(f"{place}: traces {traced}, counters {told}")
        found.append(counted)
    return found[0], found[1], done


def measure(python, version, kinds, size):
    """What is kept of a comparison, by kind."""
    began, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            real, alone, _ = compare(pathlib.Path(folder), kinds, size, python)
            found = {kind: {"real": real[kind], "alone": alone[kind]} for kind in kinds.split(",")}
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr)
            found = {kind: {"failed": str(error)[-300:]} for kind in kinds.split(",")}
    seconds = round(time.monotonic() - began)
    return [{"torch": version, "kind": kind, "size": size, "seconds": seconds, **line} for kind, line in found.items()]


def in_words(line):
    if line is None:
        return "not run"
    if "failed" in line:
        return "**failed**"
    real, alone = line["real"], line["alone"]
    if line["kind"] == "ep":  # alone, other ranks are taken to send what this one sends to its own experts
        spread, peaks = ([numbers[0] for numbers in side.values()] for side in (alone, real))
        inside = min(spread) <= min(peaks) and max(peaks) <= max(spread)
        largest, reserved = (max(numbers[1] for numbers in side.values()) for side in (alone, real))
        return (f"allocated {min(spread):,} to {max(spread):,} ({', '.join(sorted(alone))}), real {min(peaks):,} to {max(peaks):,}: "
                f"{'inside' if inside else '**differ**'}; largest reserved {largest:,}, real {reserved:,}")
    different = [f"rank {rank}: {name} {alone[rank][i]:,} alone, {real[rank][i]:,} real"
                 for i, name in enumerate(COUNTERS) for rank in sorted(alone) if real[rank][i] != alone[rank][i]]
    return f"{alone['0'][1]:,} " + (f"**differ**: {'; '.join(different)}" if different else f"equal ({', '.join(sorted(alone))})")


HEAD = """A small language model, two steps of AdamW with clipping (`tests/dryrun/programs/parallel_kinds.py`), in each kind of parallelism.
Compared for each rank: peak allocated, peak reserved, number of allocations, sum of their bytes, number of segments, from PyTorch's own
counters; the peaks of the traces are equal to them. A cell has rank 0's peak reserved in bytes, whether all five are equal, and the
ranks that were played. Several kinds run one after the other in the same processes, counted one by one. Kernels compute nothing on
either side: this shows that one process stands for N, not that the simulation is a GPU.
"""


def page(found, sizes=(2, 4, 8)):
    """Lines; a later result of the same comparison counts."""
    known = {(line["torch"], line["kind"], line["size"]): line for line in found}
    compared = [line for line in known.values() if "alone" in line]
    equal = [line for line in compared if "differ" not in in_words(line)]
    yield f"{len(equal)} of {len(known)} comparisons are equal ({sum(len(line['alone']) for line in equal)} ranks).\n"
    for version in sorted({version for version, _, _ in known}, key=lambda text: [int(part) for part in text.split("+")[0].split(".")]):
        yield f"PyTorch {version}\n\n| |{''.join(f' N = {size} |' for size in sizes)}\n|---|{'---|' * len(sizes)}"
        for kind, name in KINDS.items():
            cells = ("–" if kind in EVEN and size < 4 else in_words(known.get((version, kind, size))) for size in sizes)
            yield f"| {name} | {' | '.join(cells)} |"
        yield ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wanted", nargs="*", metavar="KIND:N")
    parser.add_argument("--python", action="append", metavar="PYTHON")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--kept", action="store_true")
    arguments = parser.parse_intermixed_args()
    wanted = [(kinds, int(size)) for kinds, _, size in (word.partition(":") for word in arguments.wanted)]
    wanted = wanted or [group for size in (2, 4, 8) for group in groups(size)]
    keep = arguments.keep
    found = [json.loads(line) for line in keep.read_text().splitlines()] if keep and keep.exists() else []
    for python in [] if arguments.kept else arguments.python or [PYTHON]:
        code = "import importlib.metadata as m; print(m.version('torch'))"
        version = subprocess.check_output([python, "-c", code], text=True).strip()
        done = {(line["torch"], line["kind"], line["size"]) for line in found if "differ" not in in_words(line) and "alone" in line}
        for kinds, size in wanted:
            kinds = ",".join(kind for kind in kinds.split(",") if (version, kind, size) not in done)
            for line in json.loads(json.dumps(measure(python, version, kinds, size) if kinds else [])):  # ranks as JSON has them
                print(version, KINDS[line["kind"]], size, in_words(line), f"{line['seconds']} s", file=sys.stderr, flush=True)
                found.append(line)
                if keep:
                    with open(keep, "a") as file:
                        file.write(json.dumps(line) + "\n")
    print(made_here("A job of N on one machine: ranks that are played alone", "tests/dryrun/world.py"))
    print(HEAD)
    print("\n".join(page(found)))


if __name__ == "__main__":
    main()
