#!/usr/bin/env python3
"""Prints docs/results/dryrun.md: what a dry run costs, and that values leave the bytes alone in every PyTorch.

    table.py --sources DIR [--keep FOLDER] PYTHON...

PYTHON: of virtual environments, or other prefixes, with torch and numpy; the first one has transformers and peft, too. DIR: as for
programs.py. FOLDER keeps what was found in each environment, and rows are printed of those that are no longer there, too.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import programs  # noqa: E402
from helpers import PROGRAM, made_here  # noqa: E402

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32}
VERSION = """
import glob, platform, sys, torch
laid = " (CUDA's libraries in PREFIX/lib)" if glob.glob(sys.prefix + "/lib/libcublas.so*") else ""
print(f"{torch.__version__}, Python {platform.python_version()}{laid}")
"""
PROGRAMS = ("gpt", "mixed", "nanogpt", "word_language_model_lstm")
MODELS = {"7b": {**LLAMA, "intermediate_size": 11008, "vocab_size": 32000, "num_key_value_heads": 32},
          "8b": {**LLAMA, "intermediate_size": 14336, "vocab_size": 128256, "num_key_value_heads": 8, "max_position_embeddings": 8192}}
MEASURE = r"""
import pathlib, re, subprocess, sys, threading, time
def memory():  # of all below, shared pages in parts
    most = 0
    while running.poll() is None:
        total = 0
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes():
                    total += int(re.search(r"^Pss:\s+(\d+)", (path.parent / "smaps_rollup").read_text(), re.M)[1])
            except OSError:
                pass
        most = max(most, total)
        time.sleep(0.5)
    print("memory", most >> 10)
import os
mark = f"TABLE={os.getpid()}".encode()
began = time.monotonic()
running = subprocess.Popen(sys.argv[1:], env={**os.environ, "TABLE": str(os.getpid())}, stderr=subprocess.STDOUT)
memory()
print("seconds", round(time.monotonic() - began))
"""


def dryrun(python, folder, *words):
    environment = {**os.environ, "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", MEASURE, PROGRAM, "dryrun", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    numbers = re.findall(r"^(\d+(?: \d+)+)$", done.stdout, re.M)
    found = {name: int(re.search(rf"^{name} (\d+)$", done.stdout, re.M)[1]) for name in ("memory", "seconds")}
    verdict = re.search(r"^[✓!✗].*$", done.stdout, re.M)
    if not numbers or not verdict:
        sys.exit(f"{words} printed nothing:\n{done.stdout[-2000:]}")
    return numbers[-1], found["seconds"], found["memory"], verdict[0]


def costs(python):
    with tempfile.TemporaryDirectory() as folder:
        for name, config in MODELS.items():
            (pathlib.Path(folder) / name).mkdir()
            (pathlib.Path(folder) / name / "config.json").write_text(json.dumps(config))
        yield "| program | allocated, reserved (bytes) | seconds | RAM, MiB | answer |\n|---|--:|--:|--:|---|"
        lora = ["--gpu", "a100-80gb", "--random-weights", "python", HERE / "programs/lora_7b.py", "7b"]
        launcher = ["torchrun", "--nproc-per-node", "8"]
        sharded = ["--gpu", "h100-80gb:8", "-o", f"{folder}/ranks/", *launcher, HERE / "programs/sharded_8b.py", "8b"]
        for title, words in (("LoRA of 7 B, bf16, batch 2 x 1024", lora), ("FSDP2 of 8 B, 8 ranks, batch 1 x 4096", sharded)):
            numbers, seconds, memory, verdict = dryrun(python, folder, *words)
            yield f"| {title} | {numbers.replace(' ', ', ')} | {seconds} | {memory} | {verdict} |"


def cell(row):
    """Allocated and reserved; what is not equal, in words."""
    cells = row.cells()
    if row.on["status"]:
        return programs.last_error(row.runner.keep / row.program.name / "on" / "output") or f"ends with {row.on['status']}"
    unlike = [f"; {name}: {told}" for name, told in (("counters", cells[2]), ("values off", cells[3])) if not told.startswith("equal")]
    return f"{cells[0]} / {cells[1]}{''.join(unlike)}"


def environments(pythons, sources, keep):
    """Programs by environment."""
    wanted = [programs.read()[name] for name in PROGRAMS]
    for python in pythons:
        version = subprocess.run([python, "-c", VERSION], capture_output=True, text=True, check=True).stdout.strip()
        runner = programs.Runner(python, sources, keep / re.sub(r"\W+", "-", version).strip("-"))
        runner.keep.mkdir(parents=True, exist_ok=True)
        (runner.keep / "version").write_text(version)
        for program in wanted:
            programs.Row(runner, program).run_without()
    yield f"| PyTorch | {' | '.join(PROGRAMS)} |\n|---|{'--:|' * len(PROGRAMS)}"
    kept = {(path / "version").read_text(): path for path in keep.iterdir()}
    for version in sorted(kept, key=lambda version: [int(number) for number in re.findall(r"\d+", version)]):
        runner = programs.Runner(sys.executable, sources, kept[version])
        yield f"| {version} | {' | '.join(cell(programs.Row(runner, program).run_without()) for program in wanted)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--sources", type=pathlib.Path, metavar="DIR", required=True)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    print(made_here("Dry runs: what they cost, and that values leave the bytes alone", "tests/dryrun/table.py --sources DIR PYTHON..."))
    for line in costs(arguments.pythons[0]):
        print(line, flush=True)
    print("\nPrograms that need only PyTorch, some of [other projects](dryrun-programs.md), on an A100 of 80 GB: bytes allocated and\n"
          "reserved. Each ran with and without values. Unless it is said, the trace's peaks are PyTorch's own counters, and each\n"
          "allocation and each free is the same with values and without.\n")
    with tempfile.TemporaryDirectory() as temporary:
        for line in environments(arguments.pythons, arguments.sources.resolve(), (arguments.keep or pathlib.Path(temporary)).resolve()):
            print(line, flush=True)


if __name__ == "__main__":
    main()
