"""Figures of other sources than peft, each repeated by a small script in published/. Part of published.py."""
import json
import os
import re
import subprocess

import published_page as pages
from helpers import PROGRAM

BENCHMARK = "[optimum-benchmark](https://huggingface.co/datasets/optimum-benchmark/cuda)"
KREAS = "[kreas/FA_benchmarks](https://huggingface.co/datasets/kreas/FA_benchmarks)"
DOCS = "[transformers' docs](https://github.com/huggingface/transformers/blob/v4.16.0/docs/source/performance.mdx)"
TUTORIAL = "[PyTorch's tutorial](https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html)"
BLOG = "[train_memory](https://huggingface.co/blog/train_memory)"
PACKAGES = ("torch==2.4.1", "transformers==4.44.2")
MORE = ("accelerate==0.33.0", "timm==1.0.9", "torchvision==0.19.1", "numpy<2")

# Script and its words, the card, the source, the recipe, and the figures: (run, kind) and MB, in the digits of the source.
ROWS = (
    ("training.py gpt2", "a10g", BENCHMARK, "GPT-2, Trainer, batch 2 x 16", {("training", "reserved"): "2910.846976"}),
    ("training.py roberta", "a10g", BENCHMARK, "RoBERTa, multiple choice, Trainer, batch 2 x 16",
     {("training", "allocated"): "2516.23424", ("training", "reserved"): "2730.491904"}),
    ("training.py bert", "a10g", BENCHMARK, "BERT, fill mask, Trainer, batch 2 x 16", {("training", "reserved"): "2520.776704"}),
    ("training.py vit", "a10g", BENCHMARK, "ViT, Trainer, batch 2", {("training", "reserved"): "1956.642816"}),
    ("inference.py resnet50", "a10g", BENCHMARK, "ResNet-50 of timm",
     {("load", "allocated"): "102.475264", ("load", "reserved"): "123.731968",
      ("forward", "allocated"): "114.685952", ("forward", "reserved"): "148.897792"}),
    ("inference.py vit", "a10g", BENCHMARK, "ViT, one image", {("load", "reserved"): "400.556032", ("forward", "reserved"): "406.847488"}),
    ("inference.py llama", "a10g", KREAS, "Llama-2-7b, fp16, 256 words",
     {("forward", "allocated"): "13755.515392", ("forward", "reserved"): "13786.677248"}),
    ("inference.py bert_large", "v100-16gb", DOCS,
     "BERT-large: 2631 MiB of nvidia-smi, less 1343 before", {("load", "added"): "1350.57"}),
    ("in_backward.py", "a100-40gb", TUTORIAL, "ViT-L/16, Adam: weights; training",
     {("weights", "allocated"): "1200", ("training", "allocated"): "6000"}),
    ("in_backward.py fused", "a100-40gb", TUTORIAL, "the same, the optimizer in the backward pass", {("training", "allocated"): "4000"}),
    ("linear.py", "a100-40gb", BLOG, "Linear(10000, 50000): model, inputs, outputs",
     {("linear", "model"): "2000", ("linear", "inputs"): "200", ("linear", "outputs"): "1000"}),
)
TEXT = """## Figures of other sources

Each by a small script (`tests/dryrun/published/`) with random weights and {packages}, under
`vramtrace dryrun --gpu` with the card that the source names, or one of its size. The sources do not tell all versions; those of
transformers and PyTorch matter (GPT-2's training takes 14 % less today). MB (1e6 bytes); digits as published.
"""


def run(script, gpu, python, keep):
    """{(run, kind): MB}, or {failed}"""
    words = script.split()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "published", words[0])
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VRAMTRACE_INSPECT": "0", "VRAMTRACE_OUT": "trace.vrt"}
    done = subprocess.run([PROGRAM, "dryrun", "--gpu", gpu, "--batches", "0", "--steps", "20", "--", python.absolute(), path, *words[1:]],
                          cwd=keep, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"run"')]
    found = {(one["run"], kind): value for one in said for kind, value in one.items() if kind != "run"}
    return found or {"failed": re.sub(r"\s+", " ", done.stderr)[-300:]}


def results(keep, python, only_kept):
    """{script: found}"""
    file, found = keep / "others.json", {}
    if file.exists():
        found = {script: {tuple(key.split()): value for key, value in one.items()} for script, one in json.loads(file.read_text()).items()}
    for script, gpu, *_ in ROWS:
        if not only_kept and script not in found:
            one = run(script, gpu, python, keep)
            if "failed" in one:
                print(f"{script}: {one['failed']}")
                continue
            found[script] = one
            file.write_text(json.dumps({script: {" ".join(key): value for key, value in one.items()} for script, one in found.items()}))
    return found


def part(found):
    yield TEXT.format(packages=" and ".join(package.replace("==", " ") for package in PACKAGES))
    yield "| recipe | source | figure | published | ours | |\n|---|---|---|--:|--:|--:|"
    sizes, missing = [], []
    for script, _, source, recipe, figures in ROWS:
        for (when, kind), published in figures.items():
            ours = found.get(script, {}).get((when, kind))
            if ours is None:
                missing.append(f"{script}: {when}, {kind}")
                continue
            sizes.append(abs(pages.difference(ours, float(published))))
            digits = len(published.partition(".")[2])
            yield (f"| {recipe} | {source} | {when}, {kind} | {published} | {ours:.{digits}f} | "
                   f"{pages.percent(pages.difference(ours, float(published)))} |")
    total = sum(len(figures) for *_, figures in ROWS)
    yield "\n" + ", ".join(f"within {bound} %: {sum(size <= bound for size in sizes)} of {total}" for bound in pages.BOUNDS) + "."
    if missing:
        yield f"\nNot run: {', '.join(missing)}."
    yield ""
