#!/usr/bin/env python3
"""Prints docs/results/dryrun.md: what a dry run costs, and that values leave the bytes alone in every PyTorch.

    table.py PYTHON...     ordinary virtual environments; the first one has transformers and peft, too
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from helpers import PROGRAM, made_here  # noqa: E402

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32}
VERSION = "import platform, torch; print(torch.__version__ + ', Python ' + platform.python_version())"
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


def main(pythons):
    print(made_here("Dry runs: what they cost, and that values leave the bytes alone", "tests/dryrun/table.py PYTHON..."))
    with tempfile.TemporaryDirectory() as folder:
        for name, config in MODELS.items():
            (pathlib.Path(folder) / name).mkdir()
            (pathlib.Path(folder) / name / "config.json").write_text(json.dumps(config))
        print("| program | allocated, reserved (bytes) | seconds | RAM, MiB | answer |\n|---|--:|--:|--:|---|")
        lora = ["--gpu", "a100-80gb", "--random-weights", "python", HERE / "programs/lora_7b.py", "7b"]
        launcher = ["torchrun", "--nproc-per-node", "8"]
        sharded = ["--gpu", "h100-80gb:8", "-o", f"{folder}/ranks/", *launcher, HERE / "programs/sharded_8b.py", "8b"]
        for title, words in (("LoRA of 7 B, bf16, batch 2 x 1024", lora), ("FSDP2 of 8 B, 8 ranks, batch 1 x 4096", sharded)):
            numbers, seconds, memory, verdict = dryrun(pythons[0], folder, *words)
            print(f"| {title} | {numbers.replace(' ', ', ')} | {seconds} | {memory} | {verdict} |", flush=True)
        print("\nConvolutions, attention, autocast and AdamW (`programs/mixed.py`), on an A100 of 80 GB: allocated, reserved,\n"
              "and how many allocations there were.\n\n| PyTorch | without values | with values | |\n|---|--:|--:|---|")
        for python in pythons:
            version = subprocess.run([python, "-c", VERSION], capture_output=True, text=True).stdout.strip()
            off, on = (dryrun(python, folder, "--gpu", "a100-80gb", "--values", values, "python", HERE / "programs/mixed.py")[0]
                       for values in ("off", "on"))
            same = "equal" if off == on else "**differ**"
            print(f"| {version} | {off.replace(' ', ', ')} | {on.replace(' ', ', ')} | {same} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
