#!/usr/bin/env python3
"""Prints the rows that torchtitan published (benchmarks/llama3_h100_202412_torchtitan.md) beside one dry run of rank 0 of each.

    torchtitan.py --sources DIR --python PYTHON [NAME...]     DIR: torchtitan, commit 9dec370; PYTHON: torch 2.6.0, torchao 0.7.0

With DIR of its release 0.2.2 and a new PyTorch: does it run? Nothing was published of it."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import dry  # noqa: E402
from helpers import made_here  # noqa: E402
from world import traces_of  # noqa: E402

C = "--training.compile"
F8 = "--float8.enable_float8_linear --float8.enable_fsdp_float8_all_gather --float8.precompute_float8_dynamic_scale_for_fsdp"
ASYNC = "--experimental.enable_async_tensor_parallel"
B2, FULL = "--training.batch_size 2", f"--training.batch_size 1 --activation_checkpoint.mode full {C} {F8}"
D2 = f"--training.batch_size 16 --training.tensor_parallel_degree 8 {C} {F8}"
D3 = ("--training.tensor_parallel_degree 8 --experimental.pipeline_parallel_degree 8 "
      f"{C} {F8} {ASYNC} --experimental.pipeline_parallel_schedule")
# Tables 2 and 6 were met with expandable segments only, the others without: the page does not tell.
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def rows():
    """(name, published GiB, model, ranks, arguments, environment)"""
    for ranks, published in ((8, (82.4, 77.0, 76.8)), (128, (67.0, 62.0, 61.8))):
        for name, gib, arguments in zip(("", "-compile", "-compile-float8"), published, (B2, f"{B2} {C}", f"{B2} {C} {F8}")):
            yield f"8b-fsdp{ranks}{name}", gib, "8b", ranks, arguments, {}
    yield "70b-2d", 71.9, "70b", 256, D2, {}
    yield "70b-2d-async", 67.6, "70b", 256, f"{D2} {ASYNC}", {}
    for schedule, gib in (("1F1B", 82.5), ("Interleaved1F1B", 72.7)):
        yield f"405b-3d-{schedule.lower()}", gib, "405b", 512, f"--training.batch_size 32 {D3} {schedule}", {}
    for degree, small, large in ((1, 83.9, 75.3), (2, 84.2, 75.9), (4, 84.0, 77.1), (8, 84.5, 84.9)):
        context = f"--training.seq_len {32768 * degree} --experimental.context_parallel_degree {degree}"
        yield f"8b-cp{degree}", small, "8b", 8, f"{FULL} {context}", EXPANDABLE
        yield f"405b-4d-cp{degree}", large, "405b", 512, f"--training.batch_size 8 {D3} 1F1B {context}", EXPANDABLE


def newest():
    yield "0.2.2-8b-fsdp64", None, "8b", 64, "", {}
    yield "0.2.2-8b-fsdp8-tp8-compile", None, "8b", 64, "--parallelism.tensor_parallel_degree 8 --compile.enable", {}


def configurations(sources):
    """The folder; of old ones without a model's name."""
    new = sources / "torchtitan" / "models" / "llama3" / "train_configs"
    return new if new.exists() else sources / "train_configs"


def run(folder, sources, python, row):
    """(peak reserved in GiB or None, seconds, resident memory of the largest process in GiB), if it is the first in its process"""
    _, _, model, ranks, arguments, environment = row
    config = (configurations(sources) / f"llama3_{model}.toml").read_text()
    (folder / "config.toml").write_text(re.sub(r"(enable_(profiling|tensorboard|checkpoint)) = true", r"\1 = false", config))
    (folder / "x").mkdir()
    path = f"{pathlib.Path(python).parent}:{os.environ['PATH']}"  # ninja and compilers of the environment
    began = time.monotonic()
    command = [python, HERE / "programs" / "torchtitan_run.py", sources, "--job.config_file", "config.toml", "--training.steps", "3"]
    done = dry.dry(folder, [*command, "--metrics.log_freq", "1", *arguments.split()], "--gpu", "h100-80gb", "--gpu-memory", "95GiB",
                   "--time", "1h", "--world", str(ranks), "--rank", "0", timeout=4000, PATH=path, OMP_NUM_THREADS="1",
                   TORCHINDUCTOR_CACHE_DIR=str(folder / "compiled"), **environment)
    if done.status:
        print(done.error[-3000:], file=sys.stderr)
    peaks = traces_of(folder)
    resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return (peaks[0][1] / 2**30 if 0 in peaks and not done.status else None), time.monotonic() - began, resident


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--sources", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--python", required=True, metavar="PYTHON")
    arguments = parser.parse_intermixed_args()
    print(made_here("torchtitan's published memory, rank 0 alone", "tests/dryrun/torchtitan.py --sources DIR --python PYTHON"))
    print("Peak reserved in GiB, Inductor's cache empty.\n\n| row | ranks | published | dry run | difference | s | host, GiB | "
          "allocator |\n|---|--:|--:|--:|--:|--:|--:|---|", flush=True)
    sources = arguments.sources.resolve()
    for row in rows() if configurations(sources).parent == sources else newest():
        name, published, _, ranks, _, environment = row
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ProcessPoolExecutor(1) as process:
            found, seconds, resident = process.submit(run, pathlib.Path(folder), sources, arguments.python, row).result()
        told = f"{found:.2f} | {f'{found / published - 1:+.2%}' if published else '–'}" if found else "failed | –"
        print(f"| {name} | {ranks} | {published or '–'} | {told} | {seconds:.0f} | {resident:.1f} | {', '.join(environment.values())} |",
              flush=True)


if __name__ == "__main__":
    main()
