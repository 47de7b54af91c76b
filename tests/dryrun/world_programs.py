#!/usr/bin/env python3
"""Distributed programs of other projects under `vramtrace dryrun --world`: the answer of a job of 64, and one process that plays each of
a few ranks against that many real processes (peaks of their traces).

    world_programs.py --sources DIR --python PYTHON [--megatron PYTHON] [--keep FILE] [--kept] [NAME...]

DIR/OWNER/NAME: checkouts. PYTHON: torch, accelerate, transformers, trl, DeepSpeed; the other one: torch, and Megatron's own packages."""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import dry  # noqa: E402
import made  # noqa: E402
from helpers import made_here  # noqa: E402
from world import traces_of  # noqa: E402

GPU, SIZE = "a100-80gb", 64
NLP = ("huggingface/accelerate", "examples/nlp_example.py", "--mixed_precision bf16", "bert")
SFT = ("huggingface/trl", "trl/scripts/sft.py", "--model_name_or_path llama-1b --dataset_name trl-lib/Capybara --output_dir out "
       "--report_to none --bf16 true --max_steps 3", "llama")
MEGATRON = ("NVIDIA/Megatron-LM", "pretrain_gpt.py", "--num-layers 16 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
            "--max-position-embeddings 1024 --micro-batch-size 1 --train-iters 3 --lr 1e-4 --mock-data --tokenizer-type NullTokenizer "
            "--vocab-size 32000 --transformer-impl local --no-persist-layer-norm --no-gradient-accumulation-fusion "
            "--no-masked-softmax-fusion --eval-interval 1000 --eval-iters 0 --bf16 --num-workers 0 --use-distributed-optimizer "
            "--normalization RMSNorm --rerun-mode disabled "
            "--no-check-for-nan-in-loss-and-grad ", "")
COUNTS = ["--batches", "0"]  # it counts on its loader's length
FSDP = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_use_orig_params": True,
                                                    "fsdp_state_dict_type": "SHARDED_STATE_DICT", "fsdp_cpu_ram_efficient_loading": False}}
FSDP_2 = {**FSDP, "fsdp_config": {**FSDP["fsdp_config"], "fsdp_version": 2, "fsdp_reshard_after_forward": True}}


def deepspeed(stage):
    return {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": stage, "zero3_init_flag": stage == 3}}


# Name: (program, configuration of accelerate, arguments at 64, arguments of the comparison, its ranks)
ROWS = {
    "nlp_example, FSDP": (NLP, FSDP, "", "", 2),
    "nlp_example, FSDP2": (NLP, FSDP_2, "", "", 2),
    "nlp_example, DeepSpeed ZeRO 2": (NLP, deepspeed(2), "", "", 2),
    "nlp_example, DeepSpeed ZeRO 3": (NLP, deepspeed(3), "", "", 2),
    "sft.py, FSDP2": (SFT, FSDP_2, "", "", 2),
    "sft.py, DeepSpeed ZeRO 3": (SFT, deepspeed(3), "", "", 2),
    "pretrain_gpt.py, TP 4 × PP 4 × DP 4": (
        MEGATRON, None, "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --global-batch-size 64",
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --global-batch-size 8", 4),
}


def run(folder, arguments, name, size, options, more, is_real=False):
    """What is kept of a run. SIZE: processes that are started on a host."""
    (source, script, words, data), config, *_ = ROWS[name]
    python = arguments.python if config else arguments.megatron or arguments.python
    shutil.copytree(arguments.sources / source, folder / "work", symlinks=True, ignore=shutil.ignore_patterns(".git"))
    place = (folder / "work" / script).parent
    (place / "x").mkdir()
    for function in data.split():
        getattr(made, function)(place)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)] if is_real else []
    if config:
        (place / "config.yaml").write_text(json.dumps({"compute_environment": "LOCAL_MACHINE", "num_machines": 1, "machine_rank": 0,
                                                       "mixed_precision": "bf16", "num_processes": size, **config}))
        launch = ["-m", "accelerate.commands.launch", "--config_file", "config.yaml", "--main_process_port", "29533"]
    began = time.monotonic()
    done = dry.dry(place, [python, *launch, pathlib.Path(script).name, *shlex.split(f"{words} {more}")], "--gpu", f"{GPU}:{size}",
                   "--random-weights", "--fake-data", "--time", "20m", *options, *([] if config else COUNTS),
                   timeout=1500, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1",
                   PATH=f"{pathlib.Path(python).parent}:{os.environ['PATH']}", HF_HOME=str(folder / "hub"), WANDB_MODE="offline",
                   TOKENIZERS_PARALLELISM="false", PYTHONPATH=arguments.path, CUDA_DEVICE_MAX_CONNECTIONS="1")
    if done.status:
        print(done.output[-1000:], done.error[-20000:], file=sys.stderr)
    told = {"seconds": round(time.monotonic() - began), "status": done.status, "answer": done.answer, "peaks": traces_of(place)}
    lines = [line for line in re.findall(r"^(?:\[rank\d+\]: )?(\w[\w.]*Error.*)$", done.error, re.M) if "ChildFailed" not in line]
    return {**told, "error": lines[-1][:160] if done.status and lines else ""}


def measure(arguments, name, key):
    *_, at_64, at_few, few = ROWS[name]
    size, options, more = {"job": (8, ["--world", str(SIZE)], at_64), "alone": (few, ["--world", str(few), "--rank", "all"], at_few),
                           "real": (few, [], at_few)}[key]
    with tempfile.TemporaryDirectory() as folder:
        return {"name": name, "key": key, **run(pathlib.Path(folder), arguments, name, size, options, more, key == "real")}


def cells(runs):
    job, few = runs["job"], [runs.get(key) for key in ("alone", "real")]
    if job["status"]:
        real = few[1]
        told = "–" if not real else f"real ones end with {real['status']}, too: {real['error']}" if real["status"] else "**real ones run**"
        return f"**status {job['status']}**: {job['error']} | – | {job['seconds']} | {told}"
    peaks = {int(rank): pair for rank, pair in job["peaks"].items()}
    reserved = ", ".join(f"{rank}: {pair[1] / 2**30:.2f}" for rank, pair in sorted(peaks.items()))
    left_out = " · ".join(text.strip() for text in job["answer"] if text.strip().startswith(("not included", "assumed")))
    if not all(few):
        return f"{reserved} | {left_out or '–'} | {job['seconds']} | not run"
    if any(each["status"] for each in few):
        return f"{reserved} | {left_out or '–'} | {job['seconds']} | **failed**: {few[0]['error']} {few[1]['error']}"
    alone, real = (each["peaks"] for each in few)
    differ = "; ".join(f"rank {rank}: {alone.get(rank)} alone, {real[rank]} real" for rank in sorted(real) if real[rank] != alone.get(rank))
    return f"{reserved} | {left_out or '–'} | {job['seconds']} | {f'**differ**: {differ}' if differ else f'equal ({len(real)} ranks)'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--sources", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--python", required=True, metavar="PYTHON")
    parser.add_argument("--megatron", metavar="PYTHON")
    parser.add_argument("--path", default="", help="for PYTHONPATH: where Megatron's packages are")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--kept", action="store_true", help="only print what FILE has")
    parser.add_argument("--runs", action="append", choices=("job", "alone", "real"))
    arguments = parser.parse_intermixed_args()
    arguments.sources = arguments.sources.resolve()
    found = {}
    for line in map(json.loads, arguments.keep.read_text().splitlines() if arguments.keep and arguments.keep.exists() else []):
        found.setdefault(line["name"], {})[line["key"]] = line
    for key in [] if arguments.kept else arguments.runs or ("job", "alone", "real"):
        for name in arguments.names or ROWS:
            if not found.get(name, {}).get(key, {"status": 1})["status"]:
                continue
            line = json.loads(json.dumps(measure(arguments, name, key)))  # ranks as JSON has them
            print(name, key, line, file=sys.stderr, flush=True)
            found.setdefault(name, {})[key] = line
            if arguments.keep:
                with open(arguments.keep, "a") as file:
                    file.write(json.dumps(line) + "\n")
    print(made_here("Programs of other projects, as ranks of a job of 64", "tests/dryrun/world_programs.py --sources DIR --python PYTHON"))
    print(f"Reserved in GiB, by rank that was played of {SIZE}. *as real*: peaks allocated and reserved of 2 or 4 ranks that are played, "
          "against as many real processes.\n\n| program | reserved | says | s | as real |\n|---|---|---|--:|---|")
    for name in ROWS:
        if "job" in found.get(name, {}):
            print(f"| {name} | {cells(found[name])} |")


if __name__ == "__main__":
    main()
