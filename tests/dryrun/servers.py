#!/usr/bin/env python3
"""Prints a part of docs/results/dryrun-serving.md: servers that are not vLLM in dry runs, their own figures and vramtrace's.

    servers.py --python PYTHON [--sglang PYTHON] [--ctranslate2 PYTHON] [NAME...]

PYTHON: torch, transformers, diffusers, sentence-transformers, FastAPI; the others have an environment each. llama.cpp: tests/setup.sh
setup_frameworks."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import dry  # noqa: E402
from serving import arithmetic, make_model  # noqa: E402

CACHE = pathlib.Path(os.environ.get("VRAMTRACE_CACHE", pathlib.Path.home() / ".cache/vramtrace"))
VERSION = "import importlib.metadata as m, sys; print(', '.join(f'{name} {m.version(name)}' for name in sys.argv[1:]))"
PROGRAMS = {  # the program, its arguments, the requests that the dry run makes, and the packages that it is about
    "transformers' continuous batching": ("serve_batching.py", [], 0, ["transformers"]),
    "sentence-transformers": ("serve_embeddings.py", ["model"], 0, ["sentence-transformers", "transformers"]),
    "sentence-transformers, as a server": ("serve_embeddings.py", ["model", "--server"], 12, ["sentence-transformers", "fastapi"]),
    "diffusers, as a server": ("serve_images.py", [], 4, ["diffusers", "fastapi"])}


def told(trace, command, *options):
    return json.loads(subprocess.check_output([dry.PROGRAM, command, "--json", *options, trace], text=True))


def verdict(done):
    """What the answer and the report's first lines say."""
    said = [line.removeprefix("vramtrace dryrun: ") for line in done.error.splitlines()
            if re.match(r"vramtrace dryrun: |✓|✗|! |  (peak|KV cache|failed|\d+ steps|try)", line)]
    return [*said, *(f"exception: {line}" for line in done.error.splitlines()[-1:] if done.status)]


def shown(trace):
    """Of the report: what it says of leaks, what is served, and the innermost line with most bytes."""
    text = subprocess.check_output([dry.PROGRAM, "report", trace], text=True, env={**os.environ, "LANG": "C.UTF-8"}).splitlines()
    lines = text.index("Lines") if "Lines" in text else len(text) - 1
    return [line.strip() for line in text if re.search(r"leak|^  (served|each|KV cache a)", line)] + [text[lines + 1].strip()]


def compare(own, trace):
    """Rows: the figure, the server's own, ours, whether they are equal but for the allocator's rounding."""
    report = told(trace, "report")["devices"][0]
    peak, inference = report["peak"], report["inference"]
    rounding = peak["rounding_bytes"]
    ours = {"weights": peak["categories"]["parameter"], "passes": inference and inference["forward_passes"]}
    if "tokens" in own:
        ours |= {name: inference[f"kv_pool_{key}"] for name, key in (("pool", "bytes"), ("tokens", "tokens"), ("blocks", "blocks"))}
    for name, size in ours.items():
        equal = size is not None and own[name] <= size <= own[name] + (rounding if name in ("weights", "pool") else 0)
        yield f"| {name} | {own[name]:,} | {size:,} | {'yes' if equal else '**no**'} |" if size is not None else \
            f"| {name} | {own[name]:,} | – | **no** |"


def put(name, version, lines, table=()):
    print(f"\n{name} ({version}):\n")
    if table:
        print("| figure | its own | ours | equal |\n|---|--:|--:|---|", *table, "", sep="\n")
    print(*("    " + line for line in lines), sep="\n", flush=True)


def run_program(name, folder, python):
    program, arguments, requests, packages = PROGRAMS[name]
    began = time.monotonic()
    done = dry.dry(folder, [python, dry.PROGRAMS / program, *arguments], "--gpu", "l40s", "--requests", str(requests), "--time", "2400",
                   timeout=2500)
    version = subprocess.check_output([python, "-c", VERSION, "torch", *packages], text=True).strip()
    own = next((json.loads(line) for line in done.output.splitlines()[::-1] if line.startswith("{")), None)
    lines = [*verdict(done), *(shown(done.trace) if own else []), f"{time.monotonic() - began:.0f} s, status {done.status}"]
    put(name, version, lines, compare(own, done.trace) if own else ())


def run_sglang(name, folder, python):
    """The small Llama of vLLM's rows, with dummy weights."""
    make_model(folder / "model", python, "small", positions=131072)
    began = time.monotonic()
    done = dry.dry(folder, [python, "-m", "sglang.launch_server", "--model-path", folder / "model", "--load-format", "dummy",
                            "--context-length", "8192", "--disable-cuda-graph", "--watchdog-timeout", "3600", "--port", "8733"],
                   "--gpu", "l40s", "--time", "2400", timeout=2500, several=True)
    version = subprocess.check_output([python, "-c", VERSION, "torch", "sglang"], text=True).strip()
    logged = re.findall(r"(?:KV Cache is allocated|max_total_num_tokens|Load weight end).*", done.output + done.error)
    traces = sorted((folder / "x").glob("*.vrt"))
    lines = [*verdict(done), *logged, *(line for trace in traces for line in shown(trace)),
             f"weights by arithmetic {arithmetic('small', 1)[0]:,} B, ours " + ", ".join(
                 f"{told(trace, 'report')['devices'][0]['peak']['categories']['parameter']:,} B" for trace in traces),
             f"{time.monotonic() - began:.0f} s, status {done.status}"]
    put(name, version, lines)


def run_llama(name, folder, _):
    """Its buffers by what they are for, which it logs."""
    packages = next((CACHE / "venv-llama").glob("lib/python3.*/site-packages"))
    done = dry.dry(folder, [CACHE / "venv-llama" / "bin" / "python", HERE.parent / "frameworks" / "llama_script.py",
                            packages / "cyllama_cuda12.libs", "model.gguf"], "--gpu", "l40s", timeout=2500)
    own = json.loads(done.output.splitlines()[-1])["first decoded"]["sizes"]
    at = told(done.trace, "report", "--at", "mark:first decoded")["devices"][0]["at"]["categories"]
    ours = {key: f"{at[category] / 2**20:.2f}" for key, category in (("model", "parameter"), ("KV", "kv_cache"), ("compute", "activation"))}
    put(name, next(packages.glob("cyllama_cuda12-*.dist-info")).stem.replace("-", " "), [*verdict(done), *shown(done.trace)], [
        f"| {key}, MiB | {own[key]} | {ours[key]} | {'yes' if own[key] == ours[key] else '**no**'} |" for key in ours])


def run_ctranslate2(name, folder, python):
    code = "import ctranslate2; print(ctranslate2.__version__, ctranslate2.get_cuda_device_count())"
    done = dry.dry(folder, [python, "-c", code], "--gpu", "l40s")
    version, devices = done.output.split()
    put(name, version, [*done.error.splitlines(), f"it finds {devices} GPUs"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--python", required=True, metavar="PYTHON")
    for name in "sglang", "ctranslate2":
        parser.add_argument(f"--{name}", metavar="PYTHON")
    arguments = parser.parse_intermixed_args()
    rows = {name: (run_program, arguments.python) for name in PROGRAMS}
    rows |= {"llama.cpp": (run_llama, (CACHE / "venv-llama").exists()), "SGLang": (run_sglang, arguments.sglang),
             "CTranslate2": (run_ctranslate2, arguments.ctranslate2)}
    for name, (function, python) in rows.items():
        if python and (not arguments.names or name in arguments.names):
            with tempfile.TemporaryDirectory() as folder:
                function(name, pathlib.Path(folder), python)


if __name__ == "__main__":
    main()
