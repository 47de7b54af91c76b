#!/usr/bin/env python3
"""Makes a fleet's traces with what is true of each: corpus.py FOLDER COUNT [DAMAGED]

FOLDER/VERSION/JOB/rankN.vrt, of processes of hold.py (each its own) and of train.py (some, with copies), and truth.json: by path,
what the programs counted themselves; "damaged": by path, how it was damaged. Set up as tests/helpers.py says.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import LIBRARY, PYTHON, RUN  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# Where they are in the file's header (format.h).
VERSION, FEATURE_BITS = 8, 48
EVENT_THREADS = 1  # always set


def record(script, arguments, label, out, fast=False):
    subprocess.run([*RUN, "env", f"LD_PRELOAD={LIBRARY}", PYTHON, *(["-S", "-E"] if fast else []), HERE / script, *map(str, arguments)],
                   check=True, capture_output=True, timeout=600, stdin=subprocess.DEVNULL,
                   env={**os.environ, "VRAMTRACE_OUT": str(out), "VRAMTRACE_QUIET": "1", "VRAMTRACE_LABEL": label})


def hold(folder, label, job, first, ranks, scale):
    """A job whose ranks are processes of hold.py: {path: truth}"""
    scratch, target = folder / ".scratch", folder / label / job
    scratch.mkdir()
    target.mkdir(parents=True)
    record("hold.py", [scratch, scale, *range(first, first + ranks)], label, f"{scratch}/%p.vrt", fast=True)
    made = {}
    for path in scratch.glob("*.json"):
        truth = json.loads(path.read_text())
        trace = target / f"rank{truth['seed'] - first}.vrt"
        path.with_suffix(".vrt").rename(trace)
        made[str(trace.relative_to(folder))] = {**truth, "label": label, "job": job, "rank": truth["seed"] - first}
    assert len(made) == ranks
    shutil.rmtree(scratch)
    return made


def train(folder, label, job, seed, copies):
    """A job whose ranks are copies of one training: {path: truth}"""
    target = folder / label / job
    target.mkdir(parents=True)
    record("train.py", [seed, target / "truth.json", *(["leak"] if seed % 3 == 0 else [])], label, target / "rank0.vrt")
    truth = json.loads((target / "truth.json").read_text())
    (target / "truth.json").unlink()
    for rank in range(1, copies):
        shutil.copy(target / "rank0.vrt", target / f"rank{rank}.vrt")
    return {f"{label}/{job}/rank{rank}.vrt": {**truth, "label": label, "job": job, "rank": rank} for rank in range(copies)}


def overwrite(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path, at, count=64):
    data = path.read_bytes()[at:at + count]
    overwrite(path, at, bytes(byte ^ 0x5a for byte in data))


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no trace at all\n" * 1000),
    "only a magic": lambda path: os.truncate(path, 8),
    "half a header": lambda path: os.truncate(path, 2000),
    "future": lambda path: overwrite(path, VERSION, struct.pack("<II", 99, 99)),
    "unknown feature": lambda path: overwrite(path, FEATURE_BITS, struct.pack("<Q", 1 << 20 | EVENT_THREADS)),
    "flipped magic": lambda path: flip(path, 0, 8),
    "unreadable": lambda path: path.chmod(0),
    "a dangling link": lambda path: (path.unlink(), path.symlink_to("gone.vrt")),
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 200),
    "flipped": lambda path: flip(path, path.stat().st_size - 300),
}
# What of these can still be read in part; of all others nothing can.
IN_PART = ("truncated", "flipped")


def make(folder, count, damaged):
    """`count` traces, and `damaged` more that are damaged."""
    trainings, most_ranks = (6, 40) if count >= 1000 else (2, 8)
    truth, jobs = {}, 0
    for number in range(trainings):
        truth.update(train(folder, f"v{number % 2 + 1}", f"train{number // 2}", number, max(2, count // 5 // trainings)))
    while len(truth) < count:
        ranks = min(most_ranks, count - len(truth))
        label = f"v{jobs % 2 + 1}"
        truth.update(hold(folder, label, f"hold{jobs // 2}", jobs // 2 * most_ranks, ranks, 1 + jobs % 2))
        jobs += 1
    made = {}
    for number, origin in zip(range(damaged), sorted(truth)):
        kind = list(DAMAGES)[number % len(DAMAGES)]
        path = folder / f"{os.path.dirname(origin)}/damaged{number}.vrt"
        shutil.copy(folder / origin, path)
        DAMAGES[kind](path)
        made[str(path.relative_to(folder))] = kind
    (folder / "truth.json").write_text(json.dumps({"traces": truth, "damaged": made}))


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True)
    make(target, int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
