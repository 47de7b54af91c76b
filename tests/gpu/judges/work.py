"""Programs that use torch (programs/work.py): torch's counters at each point, and the card at the end."""
from figures import NotRun
# counters and driver_pool are for the table of parts.
from helpers import PYTHON
from judges.shared import PROGRAMS, card, counters, driver_pool, info, load, needed, report, run, whole  # noqa: F401


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
        rows = report(trace)["devices"][0]["last_card"]["rows"]
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
    figures.equal("bytes asked for, allocated, reserved", "torch's observer of refusals",
                  [[told["asked"], told["allocated"], told["reserved"]]],
                  [[event["bytes"], event["total_bytes"], event["detail"]] for event in seen])
    figures.holds("the line that asked is in the stack", any(frame["function"] == "fill" for frame in seen[-1]["stack"]) if seen
                  else False)
    view = report(trace, "--at", "oom")["devices"][0]["at"]
    figures.equal("bytes of blocks then", "torch's observer of refusals", told["allocated"], view["block_bytes"])


def lazy_loading(figures, folder):
    """Kernels that are loaded one by one, beside all at once: who is charged, and how much in all."""
    for mode in ("LAZY", "EAGER"):
        part, figures.subject = folder / mode, mode
        part.mkdir()
        trace, truth = record("loaded_kernels", part, CUDA_MODULE_LOADING=mode)
        before, end = truth["points"]
        whole(figures, trace)
        card(figures, trace, truth)
        rows = report(trace)["devices"][0]["last_card"]["rows"]
        figures.told("modules and kernels", sum(row["bytes"] for row in rows if row["kind"] == "modules"),
                     "cuMemGetInfo around first uses, less torch's own",
                     end["used"] - before["used"] - (end["reserved"] - before["reserved"]))
        deltas = info(trace)["counts"]["kinds"].get("delta", {})
        figures.told("calls that took memory silently", deltas.get("driver", 0))
