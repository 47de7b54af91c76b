"""Programs that use torch (programs/work.py): torch's counters at each point, and the card at the end."""
import os
import re

from figures import NotRun
from harness import PROGRAMS as BUILT
from helpers import ROOT
# counters and driver_pool are for the table of parts.
from helpers import PYTHON
from judges.shared import PROGRAMS, card, counters, driver_pool, info, load, needed, report, run, whole  # noqa: F401


PIECE = 2 << 20


def record(name, folder, prefix=(), **settings):
    """(trace, truth) of one program."""
    needed(run([*prefix, PYTHON, PROGRAMS / "work.py", name, folder / "truth.json"], folder, **settings))
    return folder / "run.vrt", load(folder / "truth.json")


def work(name, *checks, prefix=(), **settings):
    """A judge: runs the program NAME, then each of CHECKS(figures, trace, truth)."""

    def judge(figures, folder):
        trace, truth = record(name, folder, prefix, **settings)
        for what, value in truth["told"].items():
            figures.told(what, "", "the program", value)
        whole(figures, trace)
        for check in checks:
            check(figures, trace, truth)

    return judge


def in_namespace(figures, folder):
    """The program in a namespace of processes, as a container has."""
    prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
    if run([*prefix, "true"], folder, name=None).returncode:
        raise NotRun("unshare --pid --mount-proc is not allowed here")
    work("training", card, prefix=prefix)(figures, folder)


def same_results(figures, folder):
    """Losses, parameters and random numbers with the recorder and without, to the bit."""
    settings = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    needed(run([PYTHON, PROGRAMS / "work.py", "deterministic", folder / "bare.json"], folder, name=None, **settings))
    _, truth = record("deterministic", folder, **settings)
    bare = load(folder / "bare.json")
    for what in ("losses", "parameters", "generator"):
        figures.equal(what, "the same program without the recorder", bare["told"][what], truth["told"][what])
    for mine, its in zip(truth["points"], bare["points"]):
        figures.equal(f"{mine['name']}: bytes allocated", "the same program without the recorder", its["allocated"],
                      mine["allocated"])


def graph_pool(figures, trace, truth):
    pools = report(trace, "--at", "mark:end")["devices"][0]["graph_pools"]
    figures.equal("launches of the graph", "the program", len(truth["told"]["losses"]), sum(pool["launches"] for pool in pools))
    eager, losses = truth["told"]["eager"], truth["told"]["losses"]
    figures.below("losses of the graph, largest share that differs from eager steps'",
                  max(abs(mine - its) / max(abs(its), 1e-12) for mine, its in zip(losses, eager)), 1e-3)


def pool_segments(figures, trace, truth):
    """Of torch.cuda.MemPool: nothing is missing from the sum of segments; torch's snapshot tells the pool's part."""
    view = report(trace, "--at", "mark:made")["devices"][0]["at"]
    figures.holds("the pool's segments are among ours", view["segment_bytes"] >= truth["told"]["pool_bytes"] > 0,
                  [view["segment_bytes"], truth["told"]["pool_bytes"]])


def named(figures, trace, truth):
    """Inspections under a compiler: parameters have their names."""
    owners = report(trace, "--by", "owner", "--at", "mark:end")["devices"][0]["at"]["owners"]
    names = [owner["name"] for owner in owners if owner["role"] == "parameter"]
    figures.holds("parameters have names", len(names) > 10, names[:3])


def library(name):
    """A check: what a library took by itself is told by its name; how much, only the card's own figure says."""

    def check(figures, trace, truth):
        before, end = (next((point for point in truth["points"] if point["name"] == which), None) for which in ("before", "end"))
        rows = report(trace, "--at", "mark:end")["devices"][0]["gpu"]["rows"]
        own = sum(row["bytes"] for row in rows if row["name"] == name)
        taken = end["used"] - before["used"] - (end["reserved"] - before["reserved"]) if before else None
        figures.told(f"{name}: bytes", own, "cuMemGetInfo around it, less torch's own", taken)
        figures.holds(f"{name} has a row", own > 0)

    return check


def refused(figures, folder):
    """torch's own limit: what was asked for, and what was held then."""
    trace, truth = record("fraction", folder)
    whole(figures, trace)
    refusal(figures, trace, truth)


def refusal(figures, trace, truth):
    import helpers

    told = truth["told"]
    seen = [event for event in helpers.events(trace) if event["kind"] == "oom"]
    figures.told("what torch says", "", "the exception", told["message"])
    # torch reports what it asks the driver for: whole 2 MiB.
    figures.equal("bytes asked for, allocated, reserved", "torch's observer of refusals",
                  [[told["asked"], told["allocated"], told["reserved"]]],
                  [[-(-event["bytes"] // PIECE) * PIECE, event["total_bytes"], event["detail"]] for event in seen])
    figures.holds("the line that asked is in the stack", any(frame["function"] == "fill" for frame in seen[-1]["stack"]) if seen
                  else False)
    view = report(trace, "--at", "oom")["devices"][0]["at"]
    figures.equal("bytes of blocks then", "torch's observer of refusals", told["allocated"], view["block_bytes"])


def every_call(figures, folder):
    """Bytes in use around every driver function, hooked or not: whether the recorder has a hook for each that takes some."""
    proxy = folder / "proxy"
    needed(run([PYTHON, PROGRAMS / "every_call.py", proxy], folder, name=None))
    hooked = set(re.findall(r"VT_WRAPPED\((\w+)\)", (ROOT / "preload/hooks/hooks.def").read_text()))
    commands = {name: [PYTHON, PROGRAMS / "work.py", name, folder / f"{name}.json"]
                for name in ("training", "captured", "collectives", "loaded_kernels")}
    for name, command in {**commands, "pools": [BUILT / "driver_calls", "pools"]}.items():
        figures.subject, log = name, folder / f"{name}.log"
        needed(run(command, folder, name=None, EVERY_CALL_LOG=str(log),
                   LD_LIBRARY_PATH=f"{proxy}:{os.environ.get('LD_LIBRARY_PATH', '')}"))
        taken = {}
        for line in log.read_text().splitlines():
            function, size = line.split()
            taken[function] = taken.get(function, 0) + int(size)
        figures.told("bytes that each took (between calls: or in calls of two threads)", taken)
        figures.equal("functions without a hook that took memory", "cuMemGetInfo around each call", [],
                      sorted(set(taken) - hooked - {"context", "between"}))


def lazy_loading(figures, folder):
    """Kernels that are loaded one by one, beside all at once: who is charged, and how much in all."""
    for mode in ("LAZY", "EAGER"):
        part, figures.subject = folder / mode, mode
        part.mkdir()
        trace, truth = record("loaded_kernels", part, CUDA_MODULE_LOADING=mode)
        before, end = truth["points"]
        whole(figures, trace)
        card(figures, trace, truth)
        rows = report(trace, "--at", "mark:end")["devices"][0]["gpu"]["rows"]
        figures.told("modules and kernels", sum(row["bytes"] for row in rows if row["kind"] == "modules"),
                     "cuMemGetInfo around first uses, less torch's own",
                     end["used"] - before["used"] - (end["reserved"] - before["reserved"]))
        deltas = info(trace)["counts"]["kinds"].get("delta", {})
        figures.told("calls that took memory silently", deltas.get("driver", 0))
