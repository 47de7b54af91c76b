"""What judges share: where the programs are, running one with a trace in the part's folder, and the checks of any trace."""
import json
import os
import pathlib
import sys

import helpers
from helpers import RUN, info, report, vramtrace

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"

GIB = 1 << 30
# Rows of the table of a card that are this process's.
OWN = ("category", "library", "cached", "graph_memory", "modules", "graphs", "streams", "settings", "context")


def run(command, folder, name="run.vrt", **settings):
    """Under the recorder (not with name=None). Over the stand-in, the part's processes share a card of their own."""
    if RUN:
        settings = {"VRAMTRACE_STANDIN_SHARED": str(folder / "card"), "VRAMTRACE_STANDIN_MODULE": "1MiB", **settings}
    done = helpers.run(command, folder / name if name else None, check=False, preload=name is not None, **settings)
    with open(folder / "output.log", "a") as log:
        log.write(f"$ {' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}\n")
    return done


def needed(done):
    """Its result, where the part cannot go on without."""
    assert done.returncode == 0, f"exit status {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}"
    return done


def whole(figures, trace):
    """The trace is complete, and its replay agrees with itself and with the framework's counters."""
    told = info(trace)
    figures.holds("the trace is complete", told["trace"]["complete"], told["trace"]["state"])
    figures.equal("events lost", "none", 0, told["trace"]["dropped"])
    for name, count in told["disagreements"].items():
        figures.equal(name.replace("_", " "), "none", 0, count)
    looks = told["inspections"]
    figures.equal("inspections that failed", "none", [0, ""], [looks["failed"], looks["failure"]])
    figures.told("events, inspections, ms that the program waited for them",
                 [told["trace"]["events"], looks["count"], round(looks["duration_ns"] / 1e6, 1)])
    done = vramtrace("info", "--verify", trace, check=False)
    figures.holds("info --verify", done.returncode == 0, done.stdout.strip()[-300:] if done.returncode else None)


def counters(figures, trace, truth):
    """torch's own, at each point."""
    for point in truth["points"]:
        view = report(trace, "--at", f"mark:{point['name']}")["devices"][0]["at"]
        figures.equal(f"{point['name']}: bytes of blocks", "torch.cuda.memory_allocated", point["allocated"], view["block_bytes"])
        figures.equal(f"{point['name']}: bytes of segments", "torch.cuda.memory_reserved", point["reserved"], view["segment_bytes"])
    figures.equal("peak of the blocks", "torch.cuda.max_memory_allocated", truth["points"][-1]["max_allocated"],
                  report(trace)["devices"][0]["peak"]["block_bytes"])


def driver_pool(figures, trace, truth):
    """The same for backend:cudaMallocAsync, which has a pool of the driver's in place of segments."""
    for point in truth["points"]:
        view = report(trace, "--at", f"mark:{point['name']}")["devices"][0]["at"]
        figures.equal(f"{point['name']}: bytes of the pool, without what cuBLAS has", "torch.cuda.memory_reserved", point["reserved"],
                      view["driver_bytes"] - view["context_bytes"] - helpers.library_bytes(trace, view["event"]))


def card(figures, trace, truth):
    """Every byte in use on the card: the driver and NVML, asked by the program at its last point, beside the report's table."""
    point = truth["points"][-1]
    table, nvml = report(trace, "--at", f"mark:{point['name']}")["devices"][0]["gpu"], point["nvml"]
    rows = {}
    for row in table["rows"]:
        figures.told(f"row: {row['kind']} {row['name'] or row.get('command') or ''}".strip(), row["bytes"])
        rows[row["kind"]] = rows.get(row["kind"], 0) + row["bytes"]
    for row in table["not_counted"]:
        figures.told(f"told: {row['kind']}", row["bytes"])
    figures.told("the table is from", f"{table['source']}, {'steady' if table['steady'] else 'unsteady'}")
    figures.within("in use on the card", "cuMemGetInfo", point["used"], table["device_bytes"], 0.005)
    figures.equal("sum of the rows", "in use on the card", table["device_bytes"], sum(row["bytes"] for row in table["rows"]))
    figures.below("unexplained, share of the card's bytes in use", abs(rows["unexplained"]) / table["device_bytes"], 0.01)
    if not nvml:
        return
    figures.within("in use on the card", "NVML", nvml["used"], table["device_bytes"], 0.005)
    figures.told("in use on the card, NVML less cuMemGetInfo", nvml["used"] - point["used"])
    processes = nvml["processes"] or {}
    # In a namespace of its own the process does not know the number that NVML counts it by.
    own = processes.get(str(truth["pid"])) or (next(iter(processes.values())) if len(processes) == 1 else None)
    figures.told("NVML lists this process by its own number", str(truth["pid"]) in processes, "", len(processes))
    figures.told("this process is told apart from others", table["processes_known"])
    if own is not None and table["processes_known"]:
        figures.within("bytes of this process", "NVML", own, sum(rows.get(kind, 0) for kind in OWN), 0.01)


def load(path):
    return json.loads(path.read_text())


def runtime_folder():
    """Where the newest libcudart of PyTorch's packages is; the stand-in's is found without."""
    found = [pathlib.Path(folder) / name for folder in sys.path if os.path.isdir(folder)
             for name in ("nvidia/cu13/lib", "nvidia/cuda_runtime/lib")]
    return next((str(folder) for folder in found if list(folder.glob("libcudart.so.1*"))), None)
