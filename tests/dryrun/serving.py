#!/usr/bin/env python3
"""Prints docs/results/dryrun-serving.md: vLLM in dry runs, what it logs and what vramtrace says.

    serving.py --python PYTHON [NAME...]      PYTHON: vllm 0.33.0"""
import argparse
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import dry  # noqa: E402
from helpers import made_here  # noqa: E402

GIB = 2**30
MODELS = {  # (layers, width, inner, heads, heads of keys and values, words)
    "small": (4, 512, 1536, 8, 4, 32000), "1b": (16, 2048, 8192, 32, 8, 128256), "8b": (32, 4096, 14336, 32, 8, 128256)}
ROWS = {  # model, GPUs, arguments
    "small-l4": ("small", "l4", ""), "1b-l4": ("1b", "l4", "max_model_len=8192"), "8b-l4": ("8b", "l4", "max_model_len=8192"),
    "1b-l40s": ("1b", "l40s", "max_model_len=8192"), "8b-l40s": ("8b", "l40s", "max_model_len=8192"),
    "small-h100": ("small", "h100-80gb", ""), "1b-h100": ("1b", "h100-80gb", "max_model_len=8192"),
    "8b-h100": ("8b", "h100-80gb", "max_model_len=8192"), "8b-h100-graphs": ("8b", "h100-80gb", "max_model_len=8192 --graphs"),
    "8b-h100-tp2": ("8b", "h100-80gb:2", "max_model_len=8192 --tp 2")}
SERVED = {  # model, GPUs, options of the dry run, and of `vllm serve`, which the dry run asks and ends
    "8b-l40s, twelve requests": ("8b", "l40s", "", ""), "1b-l4, twelve requests": ("1b", "l4", "", ""),
    "8b-l4, the longest text": ("8b", "l4", "--fit max-model-len", ""),
    "8b-l40s, GPUs": ("8b", "l40s:4", "--try arg:tensor-parallel-size=2 --try arg:tensor-parallel-size=4", ""),
    "8b on 14 GiB, the weights do not fit": ("8b", "l4:2", "--gpu-memory 14GiB --try arg:tensor-parallel-size=2", ""),
    "8b-l4, a pool of 6 GiB, which fills the GPU": ("8b", "l4", "--try arg:kv-cache-memory-bytes=4G", "--kv-cache-memory-bytes 6G")}
COUNTED = {  # the same, of an engine that counts its own tensors (serve_truth.py)
    "small-l4, counted": ("small", "l4", ""), "8b-l40s, counted": ("8b", "l40s", "max_model_len=8192"),
    "small-l4, graphs, counted": ("small", "l4", "--graphs"), "8b-l40s, graphs, counted": ("8b", "l40s", "max_model_len=8192 --graphs")}
TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = {f"w{i}": i for i in range(2000)}
made = Tokenizer(models.WordLevel(words, unk_token="w3"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=made, pad_token="w0", bos_token="w1", eos_token="w2", unk_token="w3").save_pretrained(sys.argv[1])
"""
LOGGED = {"weights": r"Model loading took ([\d.]+) GiB", "kv": r"Available KV cache memory: ([\d.]+) GiB",
          "tokens": r"GPU KV cache size: ([\d,]+) tokens"}


def make_model(folder, python, model, positions=8192):
    layers, width, inner, heads, kv_heads, words = MODELS[model]
    folder.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": words,
              "max_position_embeddings": positions, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
              "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps(config))
    subprocess.run([python, "-c", TOKENIZER, folder], check=True, capture_output=True)


def arithmetic(model, ranks):
    """(bytes of the weights, bytes of a token's keys and values) of a rank; norms are whole on each."""
    layers, width, inner, heads, kv_heads, words = MODELS[model]
    head = width // heads
    split = 2 * words * width + layers * (2 * width * width + 2 * width * kv_heads * head + 3 * width * inner)
    return 2 * (split // ranks + (2 * layers + 1) * width), 2 * 2 * layers * kv_heads * head // ranks


def run(folder, python, row):
    """Cells of a line of the table."""
    model, gpu, arguments = row
    make_model(folder / "model", python, model)
    (folder / "x").mkdir()
    began = time.monotonic()
    done = dry.dry(folder, [python, HERE / "programs" / "serve_llm.py", folder / "model", *arguments.split()], "--gpu", gpu,
                   "--time", "600", timeout=900, several=True)
    seconds, ranks = time.monotonic() - began, 2 if "--tp" in arguments else 1
    resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / GIB
    if "SERVED" not in done.output:
        return ["failed: " + " ".join(done.error.splitlines()[-1:])]
    found = {name: re.search(pattern, done.output) for name, pattern in LOGGED.items()}
    told = {name: float(match[1].replace(",", "")) if match else None for name, match in found.items()}
    weights, token = arithmetic(model, ranks)
    trace = sorted((folder / "x").glob("*.vrt"))[0]
    device = json.loads(subprocess.check_output([dry.PROGRAM, "report", "--json", trace], text=True))["devices"][0]
    pool, tokens = (device["inference"][name] for name in ("kv_pool_bytes", "kv_pool_tokens"))
    held = device["peak"]["categories"]
    equal = (tokens == told["tokens"] and f"{pool / GIB:.2f}" == f"{told['kv']:.2f}" and
             0 <= held["parameter"] - weights <= device["peak"]["rounding_bytes"])
    return [f"{told['weights']:.2f}", f"{weights / GIB:.3f}", f"{held['parameter'] / GIB:.3f}", f"{told['kv']:.2f}", f"{pool / GIB:.3f}",
            f"{told['tokens']:,.0f}", f"{tokens:,}", f"{tokens * token / GIB:.3f}", "yes" if equal else "**no**", f"{seconds:.0f}",
            f"{resident:.1f}"]


def count(folder, python, row):
    """(category, what the engine's objects hold, what the report says) of each, in bytes, and of all."""
    model, gpu, arguments = row
    make_model(folder / "model", python, model)
    done = dry.dry(folder, [python, HERE / "programs" / "serve_truth.py", folder / "model", *arguments.split()], "--gpu", gpu,
                   "--time", "900", timeout=1200)
    counted = json.loads(next(line for line in done.output.splitlines() if line.startswith('{"truth"')))
    shown = subprocess.check_output([dry.PROGRAM, "report", "--json", "--at", "mark:truth", done.trace], text=True)
    device = json.loads(shown)["devices"][0]["at"]
    held = {name: device["categories"].get(name, 0) for name in ("parameter", "buffer", "kv_cache")}
    rows = [(name, counted["truth"][name], size) for name, size in held.items()]
    # Workspaces of libraries are held by no Python object.
    rest = {name: size for name, size in device["categories"].items()
            if size and name not in (*held, "workspace", "context", "cached", "host_pinned")}
    rows += [(f"the engine's state ({', '.join(rest)})", counted["truth"]["rest"], sum(rest.values())),
             ("held by no object: workspace", counted["allocated"] - sum(counted["truth"].values()),
              device["categories"].get("workspace", 0))]
    return [*rows, ("all (torch's counter)", counted["allocated"], device["block_bytes"])]


def serve(folder, python, row):
    """What the answer says, and what vLLM logs of the same."""
    model, gpu, options, more = row
    make_model(folder / "model", python, model, positions=131072)
    (folder / "x").mkdir()
    began = time.monotonic()
    done = dry.dry(folder, [pathlib.Path(python).with_name("vllm"), "serve", folder / "model", "--load-format", "dummy", "--enforce-eager",
                            "--max-model-len", "8192", "--port", "8731", *more.split()], "--gpu", gpu, "--time", "600", *options.split(),
                   timeout=1800, several=True)
    said = [line.removeprefix("vramtrace dryrun: ") for line in done.error.splitlines() if re.search(
        r"requests to|^✓|^✗|^!|KV cache: |^  (arg:|try: )|as it is|^ +in use", line) and "INFO" not in line]
    logged = re.findall(r"GPU KV cache size: [\d,]+ tokens|Maximum concurrency for .*", done.output + done.error)
    return [*said, *logged, f"{time.monotonic() - began:.0f} s, status {done.status}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--python", required=True, metavar="PYTHON")
    arguments = parser.parse_intermixed_args()
    print(made_here("vLLM in dry runs", "tests/dryrun/serving.py --python PYTHON"))
    print("GiB. *vLLM*: what it logs; *arithmetic*: parameters × 2 bytes, tokens × bytes of a token; *ours*: the report of rank 0.\n")
    print("| run | weights, vLLM | arithmetic | ours | KV, vLLM | ours | tokens, vLLM | ours | tokens × bytes | equal | s | host |\n"
          f"|---|{'--:|' * 8}---|--:|--:|", flush=True)
    for name, row in ROWS.items():
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {name} | {' | '.join(run(pathlib.Path(folder), arguments.python, row))} |", flush=True)
    for name, row in COUNTED.items():
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows = count(pathlib.Path(folder), arguments.python, row)
            print(f"\n{name}, MiB:\n\n| what | the engine's objects | ours | |\n|---|--:|--:|--:|")
            for what, true, ours in rows:
                apart = f"{100 * (ours / true - 1) if true else 0:+.2f} %"
                print(f"| {what} | {true / 2**20:,.2f} | {ours / 2**20:,.2f} | {apart} |", flush=True)
    for name, row in SERVED.items():
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            lines = serve(pathlib.Path(folder), arguments.python, row)
            print("\n".join(["", f"{name}:", "", *("    " + line for line in lines)]), flush=True)


if __name__ == "__main__":
    main()
