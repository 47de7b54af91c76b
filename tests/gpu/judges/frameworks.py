"""Frameworks whose wheels have NVIDIA's runtime inside: they run on a card only."""
from helpers import PYTHON
from judges.shared import PROGRAMS, load, needed, report, run, whole


def cupy(figures, folder):
    """CuPy's pool: its own counters, beside what the driver gave under it."""
    needed(run([PYTHON, PROGRAMS / "cupy_pool.py", folder / "truth.json"], folder))
    truth, trace = load(folder / "truth.json"), folder / "run.vrt"
    whole(figures, trace)
    for mark, told in truth.items():
        view = report(trace, "--at", f"mark:{mark}")["devices"][0]["at"]
        figures.equal(f"{mark}: bytes of the pool", "cupy's total_bytes", told["total"],
                      view["driver_bytes"] - view["context_bytes"])
    lines = report(trace, "--by", "line", "--at", "mark:made")["devices"][0]["at"]["lines"]
    files = [line["file"] for line in lines]
    figures.holds("the line that made it", any(file.endswith("cupy_pool.py") for file in files), files[:3])
