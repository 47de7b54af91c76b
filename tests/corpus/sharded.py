#!/usr/bin/env python3
"""Trainers that share weights, gradients or state out among two ranks (sharded/trainer.py): what each rank's trace says of them,
compared with what the trainer's own objects hold.

    sharded.py [--runs N] [--busy N] [--keep FOLDER] [CONFIGURATION...] > docs/results/sharded.md

--runs: of each, all in the same words? --busy: busy loops beside. Needs VRAMTRACE_BUILD, VRAMTRACE_PYTHON and VRAMTRACE_RUN, and
DeepSpeed and Megatron from `tests/setup.sh setup_sharded_trainers`.
"""
import argparse
import collections
import contextlib
import importlib.metadata
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from helpers import ENVIRONMENT, PYTHON, made_here, report, run, versions  # noqa: E402
from table import busy_loops, share_of  # noqa: E402

CACHE = pathlib.Path(ENVIRONMENT.get("VRAMTRACE_CACHE", pathlib.Path.home() / ".cache/vramtrace"))
PACKAGES = [str(found) for found in CACHE.glob("venv-sharded/lib/python3.*/site-packages")]
RANKS = 2
TEXT = """{runs} runs, {busy} busy loops beside. *wrong*: the largest share of the allocated bytes, at any mark of any rank and run, that
the report calls otherwise than the trainer's own objects. *same words*: on both ranks and in all runs. *named*: bytes with their owner's
name. What activations and NCCL hold is not judged here.
"""
ALLOWED = {"parameter": ("parameter",), "master": ("parameter",), "state": ("optimizer_state",), "gradient": ("gradient",),
           "bucket": ("gradient", "communication")}


def configurations():
    """Those of trainer.py, which imports torch."""
    text = (HERE / "sharded" / "trainer.py").read_text().partition("CONFIGURATIONS = {")[2].partition("}\n\n")[0]
    return [line.split('"')[1] for line in text.splitlines() if line.startswith('    "')]


def train(folder, configuration, **settings):
    """FOLDER gets rank-R.truth and the ranks' traces."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [*PACKAGES, *filter(None, [ENVIRONMENT.get("PYTHONPATH")])]
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", HERE / "sharded/trainer.py"]
    run([*command, configuration, folder], folder / "%p.vrt", PYTHONPATH=":".join(paths), VRAMTRACE_STANDIN_DEVICES=str(RANKS), **settings)
    devices = {trace: report(trace)["devices"] for trace in folder.glob("*.vrt")}
    return {found[0]["index"]: trace for trace, found in devices.items() if found}  # each rank uses the device of its number


Found = collections.namedtuple("Found", "role bytes category named")


def judge(trace, truth):
    """{mark: [Found] of the storages that the truth knows}."""
    found = {}
    for name, mark in truth.items():
        device, = report(trace, "--at", f"mark:{name}", "--by", "block")["devices"]
        blocks = {block["address"]: block for block in device["at"]["blocks"] if block["kind"] == "block"}
        assert sum(block["bytes"] for block in blocks.values()) == mark["allocated"], f"{name}: not PyTorch's bytes"
        found[name] = [Found(role, blocks[address]["bytes"], blocks[address]["category"], is_named(blocks[address]["owner"], owner))
                       for address, _, role, owner in mark["storages"]]
    return found


def is_named(owner, word):
    return bool(owner) if word is None else word in (owner or "")


def wrong_share(found, allocated):
    return sum(each.bytes for each in found if each.category not in ALLOWED[each.role]) / allocated


def words_of(found):
    """What a rank's report calls each role, in bytes: the same on every rank and in every run."""
    words = collections.Counter()
    for each in found:
        words[each.role, each.category] += each.bytes
    return words


@contextlib.contextmanager
def folder_of(kept):
    with tempfile.TemporaryDirectory() as temporary:
        yield kept or pathlib.Path(temporary)


def row(folder, configuration, runs):
    """The worst mark of all runs and ranks; whether all say the same; and bytes with names of those that ask for one."""
    worst, words, named = (0, ""), collections.defaultdict(set), [0, 0]
    for number in range(runs):
        own = folder / f"{configuration}-{number}"
        for rank, trace in train(own, configuration).items():
            truth = json.loads((own / f"rank-{rank}.truth").read_text())
            for mark, found in judge(trace, truth).items():
                worst = max(worst, (wrong_share(found, truth[mark]["allocated"]), mark))
                words[mark].add(frozenset(words_of(found)))
                named[0] += sum(each.bytes for each in found if each.named)
                named[1] += sum(each.bytes for each in found)
    same = "yes" if all(len(each) == 1 for each in words.values()) else "no"
    return f"| {configuration} | {worst[0]:.2%} {worst[1] if worst[0] else ''} | {same} | {share_of(*named)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="CONFIGURATION", help="default: all")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_intermixed_args()
    with folder_of(arguments.keep) as folder, busy_loops(arguments.busy):
        lines = [row(folder, name, arguments.runs) for name in arguments.names or configurations()]
        own = [f"{found.name} {found.version}" for found in importlib.metadata.distributions(path=PACKAGES)
               if found.name in ("deepspeed", "megatron-core")]
        print(made_here("Trainers that shard, on two ranks",
                        f"tests/corpus/sharded.py --runs {arguments.runs} --busy {arguments.busy} > docs/results/sharded.md",
                        ", ".join([versions(next(folder.glob("*/*.vrt")), "accelerate", "transformers", "lightning"), *sorted(own)])))
    print(TEXT.format(runs=arguments.runs, busy=arguments.busy))
    print("| trainer | wrong | same words | named |\n|---|--:|---|--:|", *lines, sep="\n")


if __name__ == "__main__":
    main()
