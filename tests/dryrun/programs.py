#!/usr/bin/env python3
"""Runs the programs of programs.md under `vramtrace dryrun` and prints a table: what it said, beside PyTorch's own counters.

    programs.py --python PYTHON --sources DIR [--keep FOLDER] [NAME...]     > docs/results/dryrun-programs.md
    programs.py --python PYTHON --short                                      programs of our own tests

PYTHON: of a virtual environment with torch. DIR/OWNER/NAME: checkouts of the repositories, at the commits of programs.md; a program
whose checkout is not there is listed as left out. FOLDER keeps what each program wrote, and the command goes on where it was ended.
Nothing is downloaded. Each program runs twice, with values and with --values off. Needs VRAMTRACE_BUILD (tests/helpers.py).
"""
import argparse
import concurrent.futures
import dataclasses
import gzip
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import helpers  # noqa: E402
from dry import sequence  # noqa: E402
from helpers import made_here, report  # noqa: E402

GPU, TIME, WITHOUT_VALUES_TIME = "a100-80gb", "8m", "3m"
COLUMNS = ("program", "script", "arguments", "options", "ranks", "data", "trial", "note")
OWN = "here"  # the section of programs that lie in this repository
# Starts what is measured, and is itself small: the peak of a process that is started begins with that of its parent.
START = """
import json, os, sys, time
began = time.monotonic()
pid = os.spawnvp(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(pid, 0)
with open(sys.argv[1], "w") as file:
    json.dump({"seconds": time.monotonic() - began, "host": used.ru_maxrss << 10, "status": os.waitstatus_to_exitcode(status)}, file)
"""
# Runs at the start of every Python of the program: at its end, PyTorch's counters.
COUNTERS = """
import atexit, os, sys
def tell():
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    for device in range(torch.cuda.device_count()):
        counted = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
        if counted[1]:
            with open(os.environ["PROGRAMS_COUNTERS"], "a") as file:
                print(*counted, file=file)
atexit.register(tell)
"""


@dataclasses.dataclass(frozen=True)
class Program:
    repository: str
    commit: str
    name: str
    script: str
    arguments: str = ""
    options: str = ""
    ranks: str = ""
    data: str = ""
    trial: str = ""
    note: str = ""

    def gpus(self):
        return int(self.ranks.split()[-1]) if self.ranks else 1

    def command(self, python):
        """In the folder of the script."""
        script = pathlib.Path(self.script).name
        module = {"torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node"],
                  "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--main_process_port", "0", "--num_processes"]}
        launcher = self.ranks.split()
        launch = ["-m", *module[launcher[0]], launcher[1]] if len(launcher) > 1 else []
        return [python, *launch, script, *shlex.split(self.arguments)]

    def place(self):
        return f"{self.repository}@{self.commit[:8]} {self.script}" if self.commit else self.script


def read(text=None):
    """{name: program}, in the order of the table."""
    programs, repository, commit = {}, "", ""
    for line in (text or (HERE / "programs.md").read_text()).splitlines():
        if line.startswith("## "):
            repository, commit = (line.split()[1:] + [""])[:2]
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == len(COLUMNS) and cells[0] != "program" and not cells[0].startswith("---"):
            assert cells[0] not in programs, f"two programs are called {cells[0]}"
            programs[cells[0]] = Program(repository, commit, *cells)
    return programs


# ---- What programs find in their folder in place of a download. Each function has that folder.


def words(rng, count, of=2000):
    return " ".join(f"w{rng.randrange(of)}" for _ in range(count))


def text(folder):
    (folder / "input.txt").write_text("\n".join(words(random.Random(1), 12) for _ in range(8000)))


def corpus(folder):
    """As WikiText-2: 33,278 different words."""
    rng = random.Random(1)
    (folder / "words").mkdir()
    for part, lines in (("train", 3000), ("valid", 300), ("test", 300)):
        (folder / "words" / f"{part}.txt").write_text("\n".join(words(rng, 12, 33277) for _ in range(lines)) + "\n")
    with open(folder / "words" / "train.txt", "a") as file:
        file.write(" ".join(f"w{number}" for number in range(33277)) + "\n")


def picture(path, width, height, channels=3, rng=random.Random(1)):  # noqa: B008
    """A PNG of noise; with one channel, of two values."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    noise = rng.randbytes(width * height * channels)
    noise = noise if channels == 3 else bytes(byte & 1 for byte in noise)
    rows = b"".join(b"\0" + noise[row * width * channels:(row + 1) * width * channels] for row in range(height))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def bsds300(folder):
    for part in ("train", "test"):
        for number in range(24):
            picture(folder / "dataset" / "BSDS300" / "images" / part / f"{number}.png", 481, 321)


def classes(folder):
    """A folder of images: train and val, two classes."""
    for part, count in (("train", 160), ("val", 80)):
        for number in range(count):
            picture(folder / "images" / part / f"class{number % 2}" / f"{number}.png", 256, 256)


def pets(folder):
    """Images that have their class in their name."""
    for number in range(160):
        picture(folder / "images" / f"kind{number % 2}_{number}.jpg", 256, 256)


def masks(folder):
    for number in range(24):
        picture(folder / "data" / "imgs" / f"{number}.png", 480, 320)
        picture(folder / "data" / "masks" / f"{number}.png", 480, 320, 1)


def cora(folder):
    rng, nodes = random.Random(1), 2708
    (folder / "cora").mkdir()
    lines = [" ".join([str(node), *(str(int(rng.random() < 0.01)) for _ in range(1433)), f"class{node % 7}"]) for node in range(nodes)]
    (folder / "cora" / "cora.content").write_text("\n".join(lines) + "\n")
    pairs = rng.sample(range(nodes * nodes), 5429)
    (folder / "cora" / "cora.cites").write_text("\n".join(f"{pair // nodes} {pair % nodes}" for pair in pairs) + "\n")


def mingpt(folder):
    """In place of its installation."""
    (folder / "mingpt").symlink_to("../../mingpt")


def llmc_tokens(folder):
    count = 1 << 18
    (folder / "tokens.bin").write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + bytes(2 * count))


# ---- Models: configuration and tokenizer, no weights

SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "cls_token": "[CLS]", "sep_token": "[SEP]",
           "mask_token": "[MASK]"}
CHAT = ("{% for m in messages %}{{ m['role'] }} {{ m['content'] }} </s> {% endfor %}"
        "{% if add_generation_prompt %}assistant {% endif %}")
LLAMA_1B = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 2048,
            "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
            "max_position_embeddings": 131072, "tie_word_embeddings": True, "dtype": "bfloat16"}
QWEN_05B = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": 896,
            "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
            "tie_word_embeddings": True, "dtype": "bfloat16"}
STABLE = {  # CompVis/stable-diffusion-v1-4
    "model_index.json": {"_class_name": "StableDiffusionPipeline", "scheduler": ["diffusers", "PNDMScheduler"],
                         "text_encoder": ["transformers", "CLIPTextModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
                         "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
                         "safety_checker": [None, None], "feature_extractor": [None, None]},
    "scheduler/scheduler_config.json": {"_class_name": "PNDMScheduler", "beta_end": 0.012, "beta_schedule": "scaled_linear",
                                        "beta_start": 0.00085, "num_train_timesteps": 1000, "skip_prk_steps": True, "steps_offset": 1},
    "text_encoder/config.json": {"model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 768,
                                 "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 49408},
    "tokenizer/vocab.json": {"<|startoftext|>": 49406, "<|endoftext|>": 49407},
    "tokenizer/tokenizer_config.json": {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "bos_token": "<|startoftext|>",
                                        "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
    "unet/config.json": {"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768, "attention_head_dim": 8, "sample_size": 64},
    "vae/config.json": {"_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
                        "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4, "sample_size": 512},
}


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def model(folder, config, vocabulary=2000):
    names = [*SPECIAL.values(), *(f"w{number}" for number in range(vocabulary))]
    added = [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, name in enumerate(SPECIAL.values())]
    write(folder, {
        "config.json": {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **config},
        "tokenizer.json": {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                           "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
                           "model": {"type": "WordLevel", "vocab": {name: i for i, name in enumerate(names)}, "unk_token": "<unk>"}},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 2048, "chat_template": CHAT,
                                  **SPECIAL}})


def gpt2(folder):
    model(folder / "gpt2", {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})


def bert(folder):
    model(folder / "bert-base-cased", {"model_type": "bert", "architectures": ["BertForMaskedLM"]})


def llama(folder):
    model(folder / "llama-1b", LLAMA_1B)


def qwen(folder):
    model(folder / "qwen-0.5b", QWEN_05B)


def smol(folder):
    """HuggingFaceTB/SmolLM-360M, which a program of accelerate names."""
    model(folder / "HuggingFaceTB" / "SmolLM-360M", {**LLAMA_1B, "vocab_size": 49152, "hidden_size": 960, "intermediate_size": 2560,
                                                     "num_hidden_layers": 32, "num_attention_heads": 15, "num_key_value_heads": 5})


def reward_model(folder):
    model(folder / "reward", {**QWEN_05B, "architectures": ["Qwen2ForSequenceClassification"], "num_labels": 1})


def stable_diffusion(folder):
    write(folder / "stable-diffusion", {**STABLE, "tokenizer/merges.txt": "#version: 0.2\n"})


def vae(folder):
    write(folder / "stabilityai" / "sd-vae-ft-ema", {"config.json": STABLE["vae/config.json"]})


# ---- Running


class Runner:
    def __init__(self, python, sources, keep):
        self.python, self.sources, self.keep = os.path.abspath(python), sources, keep

    def why_not(self, program):
        root = helpers.ROOT if program.repository == OWN else self.sources and self.sources / program.repository
        if not root or not (root / program.script).exists():
            return f"{program.repository} is not there"
        return ""

    def copy(self, program, work):
        """A copy of the checkout; the folder of the script in it."""
        if program.repository == OWN:
            shutil.copytree((helpers.ROOT / program.script).parent, work, ignore=shutil.ignore_patterns("__pycache__"))
            return work
        shutil.copytree(self.sources / program.repository, work, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        return (work / program.script).parent

    def run(self, program, values="on", time=TIME):
        kept = self.keep / program.name / values
        told = kept / "told.json"
        if not told.exists():
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            with tempfile.TemporaryDirectory(prefix="dryrun-programs-") as temporary:
                print(program.name, values, file=sys.stderr, flush=True)
                told.write_text(json.dumps(self.measure(program, values, time, kept, pathlib.Path(temporary)), indent=1))
        return json.loads(told.read_text())

    def measure(self, program, values, time, kept, temporary):
        folder = self.copy(program, temporary / "work")
        for name in program.data.split():
            globals()[name](folder)
        write(temporary, {"hook/sitecustomize.py": COUNTERS})
        traces, counters, measured = temporary / "traces", temporary / "counters", temporary / "measured"
        gpu = f"{GPU}:{program.gpus()}" if program.gpus() > 1 else GPU
        command = [helpers.PROGRAM, "dryrun", "--gpu", gpu, "--time", time, *shlex.split(program.options),
                   "-o", f"{traces}/", *program.command(self.python)]
        ours = ("VRAMTRACE_", "LD_", "PYTHONPATH")
        environment = {name: value for name, value in helpers.ENVIRONMENT.items() if not name.startswith(ours)}
        environment.update(PYTHONPATH=str(temporary / "hook"), PROGRAMS_COUNTERS=str(counters), LANG="C.UTF-8", HF_HUB_OFFLINE="1",
                           HF_HOME=str(temporary / "hub"), XDG_CACHE_HOME=str(temporary / "cache"), TOKENIZERS_PARALLELISM="false",
                           VRAMTRACE_DRYRUN_VALUES=values, PATH=f"{pathlib.Path(self.python).parent}:{os.environ['PATH']}", WANDB_MODE="offline", OMP_NUM_THREADS="1")
        with open(kept / "output", "w") as output:
            subprocess.run([sys.executable, "-c", START, measured, *map(str, command)], cwd=folder, env=environment, stdout=output,
                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        found = json.loads(measured.read_text())
        found["counted"] = sorted([int(n) for n in line.split()] for line in counters.read_text().splitlines()) if counters.exists() else []
        found["recorded"], found["sequences"] = [], []
        for number, (peaks, changed) in enumerate(sorted((sorted(peaks), changed) for peaks, changed in processes(traces))):
            found["recorded"] = sorted(found["recorded"] + peaks)
            found["sequences"].append([sum(kind == "alloc" for kind, *_ in changed), hashlib.sha256(repr(changed).encode()).hexdigest()])
            with gzip.open(kept / f"{number}.gz", "wt") as file:
                file.writelines(" ".join(map(str, change)) + "\n" for change in changed)
        return found


def processes(traces):
    """Of each process that used a device: [[allocated, reserved] of each], and each change of device memory by PyTorch and the driver."""
    for trace in sorted(traces.glob("**/*.vrt")) if traces.exists() else ():
        try:
            devices = report(trace, "--at", "reserved", "--top", "1")["devices"]
        except AssertionError:  # a process that used none
            continue
        peaks = [[device["peak"]["block_bytes"], device["at"]["segment_bytes"]] for device in devices if device["at"]["segment_bytes"]]
        if peaks:
            yield peaks, sequence(changes(trace))


def changes(trace):
    command = [helpers.PROGRAM, "info", "--events", "--json", trace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=helpers.ENVIRONMENT) as told:
        for event in map(json.loads, told.stdout):
            if event["kind"] in ("alloc", "free") and "host" not in event["flags"]:  # pinned memory: a thread of the loader's own
                yield event["kind"], event["layer"], event["device"], event["bytes"]


# ---- The table

HEAD = """Programs that we did not write, unchanged but for their arguments, in an ordinary virtual environment: {versions}.
Each ran under `vramtrace dryrun --gpu a100-80gb` on a machine without a GPU; *options* are the dry run's further ones. Models are a
configuration and a tokenizer made for this; nothing is downloaded. Nothing here was compared with a real GPU.

*allocated*, *reserved*: peaks in bytes of the process that allocated most, from its trace. *counters*: the same of every process by
PyTorch's own counters (`torch.cuda.max_memory_allocated`, `_reserved`). *values off*: the same of a run without values. *trial*: the
same of an earlier prototype, with other code of ours under the same PyTorch. *s*, *host*: wall time and the largest resident memory of
a process; other programs ran on the machine's two cores at the same time. *status*: the program's own exit status.

| program | script | arguments | options | GPUs | allocated | reserved | counters | values off | trial | s | host, MiB | status | note |
|---|---|---|---|--:|--:|--:|---|---|---|--:|--:|--:|---|"""
PACKAGES = ("torch", "torchvision", "transformers", "accelerate", "peft", "trl", "diffusers", "datasets", "lightning", "timm")


def versions(python):
    code = ("import importlib.metadata as m, platform, sys; h = {d.metadata['Name'] for d in m.distributions()}; "
            "print('Python', platform.python_version(), *(f'{p} {m.version(p)}' for p in sys.argv[1:] if p in h), sep=', ')")
    told = subprocess.run([python, "-c", code, *PACKAGES], capture_output=True, text=True, check=True).stdout.strip()
    return told.replace("Python, ", "Python ")


def differs(pair, other):
    """In words: how PAIR is unlike OTHER."""
    if pair == other:
        return "equal"
    return ", ".join(f"{name} {mine - theirs:+,}" for name, mine, theirs in zip(("allocated", "reserved"), pair, other) if mine != theirs)


def last_error(output):
    """The line that names the exception that ended the program."""
    if not output.exists():
        return ""
    lines = [re.sub(r"^\[?\w*rank\d+\]?:\s*", "", line) for line in output.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b(: |$)", line) and "ChildFailedError" not in line]
    return errors[-1][:160].replace("|", "\\|") if errors else ""


def without_values(most, on, off):
    if off is None:
        return "–"
    if off["status"] not in (0, on["status"]):
        return "does not end" if off["status"] == 124 else f"ends with {off['status']}"
    return differs(most, max(off["recorded"], default=[0, 0]))


def compare(program, on, off):
    """Cells: allocated, reserved, counters, values off, trial."""
    most = max(on["recorded"], default=None)
    if not most:
        return ["–"] * 5
    recorded, counted = on["recorded"], on["counted"]
    told = "equal" if counted == recorded else differs(most, max(counted)) if counted else "not told"
    if told == "equal" and len(counted) != len(recorded):
        told = f"equal (of {len(recorded)} processes {len(counted)} told)"
    trial = differs(most, [int(number) for number in program.trial.split()]) if program.trial else "–"
    return [f"{most[0]:,}", f"{most[1]:,}", told, without_values(most, on, off), trial]


def row(program, on, off, output):
    note = "; ".join(filter(None, [program.note, last_error(output) if on["status"] else ""]))
    return (f"| {program.name} | {program.place()} | `{program.arguments or ' '}` | {program.options or '–'} | {program.gpus()} | "
            f"{' | '.join(compare(program, on, off))} | {on['seconds']:.0f} | {on['host'] >> 20} | {on['status']} | {note} |")


def table(runner, programs, jobs):
    yield HEAD.format(versions=versions(runner.python))
    missing = {program.name: why for program in programs if (why := runner.why_not(program))}
    there, found = [program for program in programs if program.name not in missing], []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        on = list(pool.map(runner.run, there))
        off = pool.map(lambda one: runner.run(one[0], "off", WITHOUT_VALUES_TIME) if one[1]["recorded"] else None, zip(there, on))
        for found_on, found_off, program in zip(on, off, there):
            found.append((program, found_on, found_off))
            yield row(*found[-1], runner.keep / program.name / "on" / "output")
    yield ""
    cells = [compare(*one) for one in found]
    trial = [cell[4] for cell in cells if cell[4] != "–"]
    yield (f"{len(found)} programs: {sum(on['status'] == 0 for _, on, _ in found)} end with 0. Trace and counters are equal in "
           f"{sum(cell[2].startswith('equal') for cell in cells)}, runs with and without values in "
           f"{sum(cell[3] == 'equal' for cell in cells)}; {trial.count('equal')} of {len(trial)} are equal to the trial.")
    yield from ("", *(f"- left out: {name}: {why}" for name, why in missing.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--python", default=helpers.PYTHON, metavar="PYTHON")
    parser.add_argument("--sources", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--short", action="store_true", help="only programs of our own tests")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep what was found here, and run only what is not there")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="programs at a time")
    arguments = parser.parse_intermixed_args()
    wanted = [program for program in read().values() if (program.repository == OWN) == arguments.short]
    wanted = [program for program in wanted if not arguments.names or program.name in arguments.names]
    with tempfile.TemporaryDirectory() as temporary:
        keep = (arguments.keep or pathlib.Path(temporary)).resolve()
        runner = Runner(arguments.python, arguments.sources and arguments.sources.resolve(), keep)
        command = "tests/dryrun/programs.py --python PYTHON " + ("--short" if arguments.short else "--sources DIR")
        print(made_here("Programs of other projects under a dry run", command))
        for line in table(runner, wanted, arguments.jobs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
