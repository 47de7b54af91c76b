#!/usr/bin/env python3
"""Repeats measurements that others published, of real GPUs, under `vramtrace dryrun`, and prints both.

    published.py --peft CLONE --keep FOLDER [--steps N] [--jobs N] [NAME...]

The page is a table. CLONE: a clone of github.com/huggingface/peft, with its history; its
folder method_comparison has fine-tunings of an L40S with the bytes allocated and reserved. Each is repeated by its own script, at
its own commit, with its own releases of torch, transformers and diffusers from PyPI; the models are random, the images noise. FOLDER
keeps checkouts, virtual environments (6 GB each) and results: the command goes on where it was ended. NAME: patterns of experiments'
names. Needs VRAMTRACE_BUILD (tests/helpers.py).
"""
import argparse
import concurrent.futures
import fnmatch
import functools
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from helpers import PROGRAM, made_here  # noqa: E402

RECIPE = "method_comparison/image-gen"
GPU = "l40s"
MORE = "64GiB" # of the simulated card, where its own memory is not enough
TIME = "60m"
PERIOD = 100  # steps of the published means
LAST_LINES = 3  # of a program that failed
# Of the published results: packages and their names on PyPI.
PACKAGES = ("torch", "transformers", "diffusers", "datasets")
OTHERS = ("accelerate", "torchvision", "sentencepiece")

# ---- The model, from its configuration: FLUX.2-klein-base-4B and DINOv2-base

CHARACTERS = [chr(code) for code in range(33, 127)] + [chr(code) for code in range(256, 418)]  # a token for each byte
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
    "added_tokens": [{"id": len(CHARACTERS) + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                      "normalized": False, "special": True} for i, token in enumerate(SPECIAL)],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
    "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
              "fuse_unk": False, "byte_fallback": False, "vocab": {token: i for i, token in enumerate(CHARACTERS)}, "merges": []}}
FILES = {
    "black-forest-labs/FLUX.2-klein-base-4B": {
        "model_index.json": {
            "_class_name": "Flux2KleinPipeline", "is_distilled": False, "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "Qwen3ForCausalLM"], "tokenizer": ["transformers", "Qwen2TokenizerFast"],
            "transformer": ["diffusers", "Flux2Transformer2DModel"], "vae": ["diffusers", "AutoencoderKLFlux2"]},
        "scheduler/scheduler_config.json": {
            "_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 3.0, "use_dynamic_shifting": True},
        "text_encoder/config.json": {
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2560,
            "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "max_position_embeddings": 40960, "rope_theta": 1000000, "tie_word_embeddings": True, "torch_dtype": "bfloat16"},
        "tokenizer/tokenizer.json": TOKENIZER,
        "tokenizer/tokenizer_config.json": {
            "tokenizer_class": "Qwen2Tokenizer", "chat_template": CHAT, "eos_token": SPECIAL[2], "pad_token": SPECIAL[0],
            "model_max_length": 131072},
        "tokenizer/vocab.json": TOKENIZER["model"]["vocab"],
        "tokenizer/merges.txt": "#version: 0.2\n",
        "transformer/config.json": {
            "_class_name": "Flux2Transformer2DModel", "num_layers": 5, "num_single_layers": 20, "num_attention_heads": 24,
            "joint_attention_dim": 7680, "guidance_embeds": False},
        "vae/config.json": {"_class_name": "AutoencoderKLFlux2"}},
    "facebook/dinov2-base": {
        "config.json": {
            "architectures": ["Dinov2Model"], "model_type": "dinov2", "hidden_size": 768, "num_hidden_layers": 12,
            "num_attention_heads": 12, "image_size": 518, "patch_size": 14, "torch_dtype": "float32"},
        "preprocessor_config.json": {
            "image_processor_type": "BitImageProcessor", "crop_size": {"height": 224, "width": 224}, "do_center_crop": True,
            "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225], "resample": 3, "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 256}}}}
IMAGES, IMAGE = "peft-internal-testing/cat-image-dataset", 512


def write_models(folder):
    """What the scripts load by its name on the hub, as folders below FOLDER."""
    for model, files in FILES.items():
        for name, content in files.items():
            path = folder / model / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))


def write_images(folder, count):
    rng, folder = random.Random(1), folder / IMAGES / "train"
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        (folder / f"{i:02d}.ppm").write_bytes(b"P6\n%d %d\n255\n" % (IMAGE, IMAGE) + rng.randbytes(3 * IMAGE * IMAGE))


# ---- Published

class Published:
    """A result in the clone."""

    def __init__(self, clone, path):
        self.clone, self.name = clone, pathlib.Path(path).stem
        result = json.loads(git(clone, "show", f"HEAD:{path}"))
        first = result["train_info"]["metrics"][0]
        assert first["step"] == PERIOD, self.name
        self.bytes = {"allocated": first["mem allocated avg"], "reserved": first["mem reserved avg"]}
        self.parameters = result["train_info"]["num_total_params"]
        packages = result["meta_info"]["package_info"]
        self.commit = packages["peft-commit-hash"]
        self.packages = [f"{name}=={packages[f'{name}-version'].partition('+')[0]}" for name in PACKAGES]

    def files(self, folder):
        """Of the experiment, from FOLDER, or from the clone's newest commit if it was added later than it was run."""
        path = f"{RECIPE}/experiments/{self.name.replace('--', '/', 1)}/"
        if folder.exists():
            return {file.name: file.read_text() for file in folder.iterdir()}
        return {pathlib.Path(name).name: git(self.clone, "show", f"HEAD:{name}")
                for name in git(self.clone, "ls-tree", "--name-only", "HEAD", path).splitlines()}

    def versions(self):
        return ", ".join(self.packages).replace("==", " ") + f", peft {self.commit[:9]}"


def git(folder, *arguments):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout


def published(clone, wanted):
    paths = git(clone, "ls-tree", "--name-only", "HEAD", f"{RECIPE}/results/").splitlines()
    names = {path: pathlib.Path(path).stem for path in paths if path.endswith(".json")}
    return [Published(clone, path) for path, name in names.items() if not wanted or any(fnmatch.fnmatch(name, one) for one in wanted)]


# ---- Repeated

@functools.cache
def python(keep, packages):
    """A virtual environment with PACKAGES."""
    folder = keep / "-".join(["venv", *(package.replace("==", "-") for package in packages)])
    done = folder / "done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *packages, *OTHERS], check=True, stdout=sys.stderr)
        done.touch()
    return folder / "bin" / "python"


@functools.cache
def checkout(clone, keep, commit):
    folder = keep / f"peft-{commit[:9]}"
    if not folder.exists():
        git(clone, "worktree", "add", "--detach", folder.resolve(), commit)
    return folder.resolve()


def working_folder(keep, source, experiment, steps):
    """Where the script runs: with its experiment, which is shortened, and with the models and images under their names."""
    folder = keep / "run" / experiment.name
    inside = folder / "experiments" / experiment.name.replace("--", "/", 1)
    inside.mkdir(parents=True, exist_ok=True)
    for name, text in experiment.files(source / inside.relative_to(folder)).items():
        (inside / name).write_text(text)
    parameters = inside / "training_params.json"
    own = json.loads(parameters.read_text()) if parameters.exists() else {}
    parameters.write_text(json.dumps({**own, "max_steps": steps, "eval_steps": steps, "num_inference_steps": 1}))
    write_models(folder)
    write_images(folder, len(json.loads((source / "default_training_params.json").read_text())["instance_prompts"]))
    return folder, inside.relative_to(folder)


def repeat(experiment, clone, keep, steps):
    """What our run says: {allocated, reserved, parameters}, or {failed}. `short`: the card was too small, and was made larger."""
    result = run(experiment, clone, keep, steps)
    if "out of memory" in result.get("failed", ""):
        result = {**run(experiment, clone, keep, steps, "--gpu-memory", MORE), "short": True}
    return result


def run(experiment, clone, keep, steps, *more):
    source = checkout(clone, keep, experiment.commit)
    executable = python(keep, tuple(experiment.packages))
    folder, path = working_folder(keep, source / RECIPE, experiment, steps)
    environment = {**os.environ, "PATH": f"{executable.parent}:{os.environ['PATH']}", "PYTHONPATH": str(source / "src"),
                   "HF_HUB_OFFLINE": "1", "HF_HOME": str(keep.resolve() / "home"), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1",
                   "VRAMTRACE_INSPECT": "0", "VRAMTRACE_OUT": "trace.vrt"}
    command = [PROGRAM, "dryrun", "--gpu", GPU, *more, "--batches", "0", "--steps", str(steps + 1), "--time", TIME, "--random-weights",
               "--", "python", source / RECIPE / "run.py", "-v", "--clean", path]
    log = keep / f"{experiment.name}.log"
    with open(log, "w") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            while process.poll() is None and not means(log):
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    pass
        finally: # the rest of the script, images of the trained model, is not asked for
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
    text = log.read_text(errors="replace")
    found = means(log)
    if not found:
        lines = text.replace("\r", "\n").splitlines()
        told = [line for line in lines if re.search(r"^out of memory|encountered an error|^\w*(Error|Exception)\b", line)]
        return {"failed": " ".join((told or lines)[-LAST_LINES:])[:400]}
    return {"parameters": int(re.search(r"all params: ([\d,]+)", text)[1].replace(",", "")), **found}


def means(log):
    """The line of the script after the first period."""
    for line in log.read_text(errors="replace").splitlines():
        line = line[max(line.find('{"step"'), 0):]  # a bar of progress may be in front
        if line.startswith('{"step"') and line.endswith("}") and "mem allocated" in line:
            told = json.loads(line)
            return {"steps": int(told["step"]), "allocated": int(told["mem allocated"]), "reserved": int(told["mem reserved"])}
    return None


def results(experiments, clone, keep, steps, jobs):
    """{name: result}; those in FOLDER are not repeated, unless they failed."""
    file, lock = keep / "results.jsonl", threading.Lock()
    lines = file.read_text().splitlines() if file.exists() else []
    found = {line["name"]: line for line in map(json.loads, lines) if line.get("steps") == steps}

    def add(experiment):
        line = {"name": experiment.name, **repeat(experiment, clone, keep, steps)}
        print(json.dumps(line), file=sys.stderr, flush=True)
        with lock, open(file, "a") as out:
            found[experiment.name] = line
            out.write(json.dumps(line) + "\n")

    missing = [experiment for experiment in experiments if experiment.name not in found]
    for experiment in missing: # one after the other
        checkout(clone, keep, experiment.commit)
        python(keep, tuple(experiment.packages))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(add, missing))
    return found


# ---- The page

KINDS = ("allocated", "reserved")
TEXT = """Fine-tunings of FLUX.2-klein-base-4B on a real NVIDIA L40S, published by huggingface/peft (`method_comparison/image-gen`), and
the same scripts under `vramtrace dryrun --gpu {gpu}` with the published releases of the packages, random weights and images of noise.
MB (1e6 bytes): means of what the script reads after each of its first {published} steps ({steps} here), less what was reserved before
the model was made. No number of these runs was used to make the simulation.
"""
BOUNDS = (0.1, 0.2, 1, 5)  # percent


def difference(ours, published):
    return (ours / published - 1) * 100


def summary(differences, total):
    yield "| | median | largest | " + " | ".join(f"within {bound} %" for bound in BOUNDS) + " |"
    yield "|---|--:|--:|" + "--:|" * len(BOUNDS)
    for kind in KINDS:
        sizes = [abs(value) for value in differences[kind]]
        within = " | ".join(f"{sum(size <= bound for size in sizes)} of {total}" for bound in BOUNDS)
        yield f"| {kind} | {statistics.median(sizes):.3f} % | {max(sizes):.3f} % | {within} |"


def page(experiments, found, steps):
    differences, rows, failed = {kind: [] for kind in KINDS}, [], []
    for experiment in experiments:
        ours = found[experiment.name]
        if ours.get("failed"):
            failed.append(f"- {experiment.name}: {ours['failed']}")
            continue
        cells = []
        for kind in KINDS:
            difference_here = difference(ours[kind], experiment.bytes[kind])
            differences[kind].append(difference_here)
            cells += [f"{experiment.bytes[kind] / 1e6:.3f}", f"{ours[kind] / 1e6:.3f}", f"{difference_here:+.3f} %"]
        same = ours["parameters"] == experiment.parameters
        note = "" if same else f" ({ours['parameters']} parameters, published {experiment.parameters})"
        note += " †" if ours.get("short") else ""
        rows.append(f"| {experiment.name.replace('--flux2-klein', '').replace('-default', '')}{note} | {' | '.join(cells)} |")
    yield TEXT.format(gpu=GPU, published=PERIOD, steps=steps)
    yield from summary(differences, len(experiments))
    yield "\n| experiment | allocated: published | ours | | reserved: published | ours | |\n|---|--:|--:|--:|--:|--:|--:|"
    yield from rows
    if any(ours.get("short") for ours in found.values()):
        yield (f"\n† Did not fit into our {GPU.upper()} (its memory less the context, which is estimated), as it did into the real one; "
               f"repeated with `--gpu-memory {MORE}`.")
    if failed:
        yield "\nDid not run:\n"
        yield from failed
    yield "\nReleases:\n"
    for versions in dict.fromkeys(experiment.versions() for experiment in experiments):
        yield f"- {versions}: {sum(experiment.versions() == versions for experiment in experiments)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peft", type=pathlib.Path, required=True)
    parser.add_argument("--keep", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=PERIOD)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    experiments = published(options.peft, options.names)
    found = results(experiments, options.peft, options.keep, options.steps, options.jobs)
    print(made_here("Published measurements, repeated by a dry run", "tests/dryrun/published.py --peft CLONE --keep FOLDER"))
    print("\n".join(page(experiments, found, options.steps)))


if __name__ == "__main__":
    main()
