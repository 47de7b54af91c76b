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
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import helpers  # noqa: E402
import made  # noqa: E402
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
            try:
                with open(os.environ["PROGRAMS_COUNTERS"], "a") as file:
                    print(*counted, file=file)
            except OSError:  # this process outlives the run
                pass
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
        if cells and cells[0] != "program" and not cells[0].startswith("---"):
            assert len(cells) == len(COLUMNS), f"{len(cells)} cells of {len(COLUMNS)}: {line}"
            assert cells[0] not in programs, f"two programs are called {cells[0]}"
            programs[cells[0]] = Program(repository, commit, *cells)
    return programs


# ---- Running


class Runner:
    def __init__(self, python, sources, keep, only_kept=False):
        self.python, self.sources, self.keep, self.only_kept = os.path.abspath(python), sources, keep, only_kept

    def why_not(self, program):
        root = helpers.ROOT if program.repository == OWN else self.sources and self.sources / program.repository
        if not root or not (root / program.script).exists():
            return f"{program.repository} is not there"
        return "not run" if self.only_kept and not (self.keep / program.name / "on" / "told.json").exists() else ""

    def copy(self, program, work):
        """A copy of the checkout; the folder of the script in it."""
        if program.repository == OWN:
            shutil.copytree((helpers.ROOT / program.script).parent, work, ignore=shutil.ignore_patterns("__pycache__"))
            return work
        shutil.copytree(self.sources / program.repository, work, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        return (work / program.script).parent

    def run(self, program, values="on", time=TIME, kept=None):
        kept = self.keep / program.name / (kept or values)
        told = kept / "told.json"
        if not told.exists() and self.only_kept:
            return None
        if not told.exists():
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            with tempfile.TemporaryDirectory(prefix="dryrun-programs-") as temporary:
                print(program.name, kept.name, file=sys.stderr, flush=True)
                told.write_text(json.dumps(self.measure(program, values, time, kept, pathlib.Path(temporary)), indent=1))
        return json.loads(told.read_text())

    def prepare(self, program, temporary):
        """The folder of the script, in a copy with its data; the environment: counters go to TEMPORARY/counters."""
        folder = self.copy(program, temporary / "work")
        for name in program.data.split():
            getattr(made, name)(folder)
        made.write(temporary, {"hook/sitecustomize.py": COUNTERS})
        ours = ("VRAMTRACE_", "LD_", "PYTHONPATH")
        environment = {name: value for name, value in helpers.ENVIRONMENT.items() if not name.startswith(ours)}
        environment.update(PYTHONPATH=str(temporary / "hook"), PROGRAMS_COUNTERS=str(temporary / "counters"), LANG="C.UTF-8",
                           HF_HUB_OFFLINE="1", HF_HOME=str(temporary / "hub"), XDG_CACHE_HOME=str(temporary / "cache"),
                           TOKENIZERS_PARALLELISM="false", PATH=f"{pathlib.Path(self.python).parent}:{os.environ['PATH']}",
                           WANDB_MODE="offline", OMP_NUM_THREADS="1", HF_DEACTIVATE_ASYNC_LOAD="1")
        return folder, environment

    def measure(self, program, values, time, kept, temporary):
        folder, environment = self.prepare(program, temporary)
        traces, counters, measured = temporary / "traces", temporary / "counters", temporary / "measured"
        gpu = f"{GPU}:{program.gpus()}" if program.gpus() > 1 else GPU
        command = [helpers.PROGRAM, "dryrun", "--gpu", gpu, "--time", time, *shlex.split(program.options),
                   "-o", f"{traces}/", *program.command(self.python)]
        environment["VRAMTRACE_DRYRUN_VALUES"] = values
        with open(kept / "output", "w") as output:
            subprocess.run([sys.executable, "-c", START, measured, *map(str, command)], cwd=folder, env=environment, stdout=output,
                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        found = json.loads(measured.read_text())
        found["counted"] = sorted([int(n) for n in line.split()] for line in counters.read_text().splitlines()) if counters.exists() else []
        found["recorded"] = []
        for number, (peaks, changed) in enumerate(sorted((sorted(peaks), changed) for peaks, changed in processes(traces))):
            found["recorded"] = sorted(found["recorded"] + peaks)
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
PyTorch's own counters (`torch.cuda.max_memory_allocated`, `_reserved`). *values off*: a run without values; "equal" is each allocation
and each free of device memory in each process, in their order (frees between two allocations in any order; what is freed as Python
ends is left aside). Where values decide sizes and so the two differ, a run with the values' kernels in place that compute nothing is
compared with the one without. Transformers loads weights one after the other (`HF_DEACTIVATE_ASYNC_LOAD=1`): by its threads, their order
is another in each run. *trial*: peaks of an earlier prototype, with other code of ours under the same PyTorch, after as many
batches as it had. *s*, *host*: wall time and the largest resident memory of a process; other programs ran on the machine's two cores
at the same time, so times are upper bounds. *status*: the program's own exit status.

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
    """The line that names the exception that ended the program; of ranks, the first: others fail as they wait for it."""
    if not output.exists():
        return ""
    told = output.read_text(errors="replace").splitlines()
    lines = [re.sub(r"^\[?\w*rank\d+\]?:\s*", "", line) for line in told]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b(: |$)", line) and "ChildFailedError" not in line]
    which = 0 if lines != told else -1
    return re.sub(r" ?\(?/[\w./-]+\)?", "", errors[which])[:160].replace("|", "\\|") if errors else ""  # without this machine's paths


class Row:
    """A program, and what was found in its runs."""

    def __init__(self, runner, program):
        self.runner, self.program, self.on, self.off, self.nothing = runner, program, runner.run(program), None, None

    def history(self, kept):
        """Of each process, the one that allocated most last: each change of memory, but for what is freed as Python ends."""
        found = []
        for path in sorted((self.runner.keep / self.program.name / kept).glob("*.gz"), key=lambda path: int(path.stem)):
            with gzip.open(path, "rt") as file:
                changes = file.read().splitlines()
            while changes and changes[-1].startswith("free"):
                changes.pop()
            found.append(changes)
        return found

    def run_without(self):
        if not self.on or not self.on["recorded"]:
            return self
        self.off = self.runner.run(self.program, "off", WITHOUT_VALUES_TIME)
        if self.off and self.ends() and self.history("off") != self.history("on"):
            self.nothing = self.runner.run(self.program, "nothing", WITHOUT_VALUES_TIME)
        return self

    def ends(self):
        return self.off["status"] in (0, self.on["status"])

    def most(self):
        return max(self.on["recorded"], default=[0, 0])

    def without_values(self):
        if not self.off:
            return "not run"
        if not self.ends():
            return "does not end" if self.off["status"] == 124 else f"ends with {self.off['status']}"
        on, off = self.history("on"), self.history("off")
        count = sum(change.startswith("alloc") for change in on[-1])
        if on == off:
            return f"equal: {count:,} allocations"
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(on[-1], off[-1]))
        first = sum(mine.startswith("alloc") for mine, _ in same)
        told = f"{differs(self.most(), max(self.off['recorded'])).replace('equal', 'peaks equal')}; after allocation {first:,} of {count:,}"
        same = "equal" if self.history("nothing") == off else "**differs**"
        return f"{told}; with nothing computed {same if self.nothing else 'not run'}"

    def trial(self):
        figures, _, options = self.program.trial.partition(" --")
        found = self.most()
        if options:
            longer = dataclasses.replace(self.program, options=f"{self.program.options} --{options}")
            told = self.runner.run(longer, kept="trial")
            if not told:
                return "not run"
            found = max(told["recorded"])
        return differs(found, [int(number) for number in figures.split()])

    def cells(self):
        """Allocated, reserved, counters, values off, trial."""
        recorded, counted = self.on["recorded"], self.on["counted"]
        if not recorded:
            return ["–"] * 5
        told = "equal" if counted == recorded else differs(self.most(), max(counted)) if counted else "not told"
        if told == "equal" and len(counted) != len(recorded):
            told = f"equal (of {len(recorded)} processes {len(counted)} told)"
        return [f"{self.most()[0]:,}", f"{self.most()[1]:,}", told, self.without_values(), self.trial() if self.program.trial else "–"]

    def line(self, cells):
        program, on = self.program, self.on
        error = last_error(self.runner.keep / program.name / "on" / "output") if on["status"] else ""
        return (f"| {program.name} | {program.place()} | `{program.arguments or ' '}` | {program.options or '–'} | {program.gpus()} | "
                f"{' | '.join(cells)} | {on['seconds']:.0f} | {on['host'] >> 20} | {on['status']} | "
                f"{'; '.join(filter(None, [program.note, error]))} |")


def table(runner, programs, jobs):
    yield HEAD.format(versions=versions(runner.python))
    missing = {program.name: why for program in programs if (why := runner.why_not(program))}
    there, found = [program for program in programs if program.name not in missing], []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        rows = list(pool.map(lambda program: Row(runner, program), there))
        for row in pool.map(Row.run_without, rows):
            found.append((row, row.cells()))
            yield row.line(found[-1][1])
    yield ""
    cells = [cells for _, cells in found]
    trial = [cell[4] for cell in cells if cell[4] != "–"]
    off = [cell[3].split(":")[0] for cell in cells]
    yield (f"{len(found)} programs: {sum(row.on['status'] == 0 for row, _ in found)} end with 0. Trace and counters are equal in "
           f"{sum(cell[2].startswith('equal') for cell in cells)}. Runs with and without values are equal event by event in "
           f"{off.count('equal')}; {sum('nothing computed equal' in cell[3] for cell in cells)} more are with nothing computed. "
           f"{trial.count('equal')} of {len(trial)} are equal to the trial.")
    yield from ("", *(f"- left out: {name}: {why}" for name, why in missing.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--python", default=helpers.PYTHON, metavar="PYTHON")
    parser.add_argument("--sources", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--short", action="store_true", help="only programs of our own tests")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="keep what was found here, and run only what is not there")
    parser.add_argument("--only-kept", action="store_true", help="run nothing: print what is in FOLDER")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="programs at a time")
    arguments = parser.parse_intermixed_args()
    wanted = [program for program in read().values() if (program.repository == OWN) == arguments.short]
    wanted = [program for program in wanted if not arguments.names or program.name in arguments.names]
    with tempfile.TemporaryDirectory() as temporary:
        keep = (arguments.keep or pathlib.Path(temporary)).resolve()
        runner = Runner(arguments.python, arguments.sources and arguments.sources.resolve(), keep, arguments.only_kept)
        command = "tests/dryrun/programs.py --python PYTHON " + ("--short" if arguments.short else "--sources DIR")
        print(made_here("Programs of other projects under a dry run", command))
        for line in table(runner, wanted, arguments.jobs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
