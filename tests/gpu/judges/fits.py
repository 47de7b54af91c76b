"""What trainings of well-known models need on this GPU (programs/fits.py): truth for runs without one."""
from helpers import PYTHON
from judges.shared import PROGRAMS, info, load, needed, report, run

PROGRAM = [PYTHON, PROGRAMS / "fits.py"]


def fits(figures, folder):
    names = needed(run([*PROGRAM, "--list"], folder, name=None)).stdout.splitlines()
    for number, name in enumerate(names):
        figures.subject, trace = name, folder / f"{number}.vrt"
        needed(run([*PROGRAM, name, folder / f"{number}.json"], folder, name=trace.name, VRAMTRACE_INSPECT="0"))
        truth = load(folder / f"{number}.json")
        for what in ("parameters", "used", "end"):
            figures.told(what, "", "the program", truth[what])
        peak = report(trace)["devices"][0]["peak"]
        figures.equal("peak of the blocks", "torch.cuda.max_memory_allocated", truth["allocated"], peak["block_bytes"])
        figures.told("peak of the segments", "", "torch.cuda.max_memory_reserved", truth["reserved"])
        figures.equal("events lost", "none", 0, info(trace)["trace"]["dropped"])
