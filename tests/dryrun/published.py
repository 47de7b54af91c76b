#!/usr/bin/env python3
"""Repeats measurements that others published, of real GPUs, under `vramtrace dryrun`, and prints both.

    published.py --peft CLONE --keep FOLDER [--images] [--texts] [--others] [--steps N] [NAME...]

The page is a table for each part, all three unless some are named. Images and texts: fine-tunings of an L40S in CLONE, a clone of
github.com/huggingface/peft with its history (method_comparison). Each is repeated by its own script, at its own commit, with its own
releases of torch, transformers and others from PyPI; models are random, images noise, texts letters. Others: published_others.py.
FOLDER keeps checkouts, virtual environments (6 GB each) and results: the command goes on where it was ended; --kept only reads them.
NAME: patterns of experiments' names. Needs VRAMTRACE_BUILD (tests/helpers.py).
"""
import argparse
import fnmatch
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import published_inputs as inputs  # noqa: E402
import published_others as others  # noqa: E402
import published_page as pages  # noqa: E402
from helpers import PROGRAM, made_here  # noqa: E402

GPU, MORE = "l40s", "64GiB"  # MORE: of the simulated card, where its own memory is not enough
TIME = "60m"
LAST_LINES = 3  # of a program that failed


class Images:
    """100 steps of one shape, and nothing after them."""
    folder, page = "method_comparison/image-gen", pages.Images
    period = 100  # steps of the published means
    packages, others = ("torch", "transformers", "diffusers", "datasets"), ("accelerate", "torchvision", "sentencepiece")
    settings, to_the_end, fitted = {}, False, ()

    def __init__(self, steps=period):
        self.steps = steps

    def parameters(self):
        return {"max_steps": self.steps, "eval_steps": self.steps, "num_inference_steps": 1}

    def write(self, folder, defaults):
        inputs.write_images(folder, len(defaults["instance_prompts"]))

    def read(self, means, text):
        return means[0][1] if means else None


class Texts:
    """Windows of ten steps, after each of which the script empties the cache: the longer half of an average bucket, its shorter half,
    and the longer half of one that has the longest sample. What it reads before the training is short here: 100 articles leave blocks
    that make the first of 500 windows smaller."""
    folder, page = "method_comparison/MetaMathQA", pages.Texts
    period, window, steps = 250, 10, 30
    packages, others = ("torch", "transformers", "datasets", "bitsandbytes"), ("accelerate", "scikit-learn")
    settings = {"PYTHONOPTIMIZE": "1"}  # it asserts that the model knows English
    to_the_end = True
    fitted = ("ln_tuning--llama-3.2-3B-default", "lora--llama-3.2-3B-rank32")  # the spread of lengths

    def parameters(self):
        return {"max_steps": self.steps, "eval_steps": self.window, "generation_kwargs": {"max_length": 800, "max_new_tokens": 1}}

    def write(self, folder, defaults):
        inputs.write_texts(folder, defaults["query_template"], inputs.lengths())

    def read(self, means, text):
        largest = re.search(r"^accelerator memory max: (\d+)MB", text, re.M)
        if len(means) < self.steps // self.window or not largest:
            return None
        long, short = (window for _, window in means[:2])
        short_ones = self.period // self.window // 2
        long_ones = self.period // self.window - short_ones
        return {**{kind: (long_ones * long[kind] + short_ones * short[kind]) // (long_ones + short_ones) for kind in long},
                "largest": int(largest[1]) << 20}


# ---- Published

class Published:
    """A result in the clone."""

    def __init__(self, clone, task, path):
        self.clone, self.task, self.name = clone, task, pathlib.Path(path).stem
        result = json.loads(git(clone, "show", f"HEAD:{path}"))
        trained = result["train_info"]
        first = trained["metrics"][0]
        assert first["step"] == task.period, self.name
        self.bytes = {"allocated": first["mem allocated avg"], "reserved": first["mem reserved avg"],
                      "largest": trained["accelerator_memory_max"]}
        self.parameters = trained["num_total_params"]
        packages = result["meta_info"]["package_info"]
        self.commit = packages["peft-commit-hash"]
        self.packages = [f"{name}=={packages[f'{name}-version'].partition('+')[0]}" for name in task.packages]

    def files(self, folder):
        """Of the experiment, from FOLDER, or from the clone's newest commit if it was added later than it was run."""
        path = f"{self.task.folder}/experiments/{self.name.replace('--', '/', 1)}/"
        if folder.exists():
            return {file.name: file.read_text() for file in folder.iterdir()}
        return {pathlib.Path(name).name: git(self.clone, "show", f"HEAD:{name}")
                for name in git(self.clone, "ls-tree", "--name-only", "HEAD", path).splitlines()}

    def versions(self):
        return ", ".join(self.packages).replace("==", " ") + f", peft {self.commit[:9]}"


def git(folder, *arguments):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout


def published(clone, task, wanted):
    paths = git(clone, "ls-tree", "--name-only", "HEAD", f"{task.folder}/results/").splitlines()
    names = {path: pathlib.Path(path).stem for path in paths if path.endswith(".json")}
    return [Published(clone, task, path) for path, name in sorted(names.items())
            if not wanted or any(fnmatch.fnmatch(name, one) for one in wanted)]


# ---- Repeated

@functools.cache
def python(keep, packages, others):
    """A virtual environment with PACKAGES and OTHERS."""
    folder = keep / "-".join(["venv", *(package.replace("==", "-") for package in packages)])
    done = folder / "done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *packages, *others], check=True, stdout=sys.stderr)
        done.touch()
    return folder / "bin" / "python"


@functools.cache
def checkout(clone, keep, commit):
    folder = keep / f"peft-{commit[:9]}"
    if not folder.exists():
        git(clone, "worktree", "add", "--detach", folder.resolve(), commit)
    return folder.resolve()


def working_folder(keep, source, experiment):
    """Where the script runs: with its experiment, which is shortened, and with models and data under their names."""
    folder = keep / "run" / experiment.name
    inside = folder / "experiments" / experiment.name.replace("--", "/", 1)
    inside.mkdir(parents=True, exist_ok=True)
    for name, text in experiment.files(source / inside.relative_to(folder)).items():
        (inside / name).write_text(text)
    parameters = inside / "training_params.json"
    own = json.loads(parameters.read_text()) if parameters.exists() else {}
    parameters.write_text(json.dumps({**own, **experiment.task.parameters()}))
    inputs.write_models(folder)
    experiment.task.write(folder, json.loads((source / "default_training_params.json").read_text()))
    return folder, inside.relative_to(folder)


def repeat(experiment, clone, keep):
    """What our run says: {allocated, reserved, ..., parameters}, or {failed}. `short`: the card was too small, and was made larger."""
    result = run(experiment, clone, keep)
    if "out of memory" in result.get("failed", ""):
        result = {**run(experiment, clone, keep, "--gpu-memory", MORE), "short": True}
    return result


def run(experiment, clone, keep, *more):
    task, source = experiment.task, checkout(clone, keep, experiment.commit)
    executable = python(keep, tuple(experiment.packages), task.others)
    script = source / task.folder / "run.py"
    folder, path = working_folder(keep, script.parent, experiment)
    environment = {**os.environ, "PATH": f"{executable.parent}:{os.environ['PATH']}", "PYTHONPATH": str(source / "src"),
                   "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder.resolve() / "home"), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1",
                   "VRAMTRACE_INSPECT": "0", "VRAMTRACE_OUT": "trace.vrt", **task.settings}
    command = [PROGRAM, "dryrun", "--gpu", GPU, *more, "--batches", "0", "--steps", str(task.steps + 1), "--time", TIME,
               "--random-weights", "--", "python", script, "-v", "--clean", path]
    log = keep / f"{experiment.name}.log"
    with open(log, "w") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            while process.poll() is None and (task.to_the_end or not task.read(means(log), "")):
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    pass
        finally:  # the rest of the script, images of the trained model, is not asked for
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
    text = log.read_text(errors="replace")
    found = task.read(means(log), text)
    if not found:
        lines = text.replace("\r", "\n").splitlines()
        told = [line for line in lines if re.search(r"^out of memory|encountered an error|^\w*(Error|Exception)\b", line)]
        return {"failed": " ".join((told or lines)[-LAST_LINES:])[:400]}
    return {"parameters": int(re.search(r"all params: ([\d,]+)", text)[1].replace(",", "")), **found}


def means(log):
    """[(step, {allocated, reserved})]: the script's line after each period."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        line = line[max(line.find('{"step"'), 0):]  # a bar of progress may be in front
        if line.startswith('{"step"') and line.endswith("}") and "mem allocated" in line:
            told = json.loads(line)
            found.append((int(told["step"]), {kind: int(told[f"mem {kind}"]) for kind in ("allocated", "reserved")}))
    return found


def results(task, experiments, clone, keep, only_kept):
    """{name: result}; those in FOLDER are not repeated, unless they failed or had fewer steps."""
    file = keep / f"{task.__class__.__name__.lower()}.jsonl"
    lines = map(json.loads, file.read_text().splitlines() if file.exists() else [])
    found = {line["name"]: line for line in sorted(lines, key=lambda line: ("failed" not in line, line["steps"]))}
    for experiment in experiments:
        last = found.get(experiment.name, {"failed": "not run"})
        if not only_kept and ("failed" in last or last["steps"] < task.steps):
            line = {"name": experiment.name, "steps": task.steps, **repeat(experiment, clone, keep)}
            print(json.dumps(line), file=sys.stderr, flush=True)
            found[experiment.name] = line
            with open(file, "a") as out:
                out.write(json.dumps(line) + "\n")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peft", type=pathlib.Path, required=True)
    parser.add_argument("--keep", type=pathlib.Path, required=True)
    for name in ("images", "texts", "others"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--steps", type=int, default=Images.period)
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    everything = not (options.images or options.texts or options.others)
    lines = [made_here("Published measurements, repeated by a dry run", "tests/dryrun/published.py --peft CLONE --keep FOLDER")]
    for wanted, task in ((options.images, Images(options.steps)), (options.texts, Texts())):
        if wanted or everything:
            experiments = published(options.peft, task, options.names)
            found = results(task, experiments, options.peft, options.keep, options.kept)
            lines += pages.part(task, experiments, found, GPU, MORE, task.fitted)
    if options.others or everything:
        executable = None if options.kept else python(options.keep, others.PACKAGES, others.MORE)
        lines += others.part(others.results(options.keep, executable, options.kept))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
