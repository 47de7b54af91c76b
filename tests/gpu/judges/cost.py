"""What recording costs beside PyTorch's own recorder: variants take turns for as many rounds as the part's time allows."""
import json
import statistics
import time

from helpers import PYTHON
from judges.shared import PROGRAMS, needed, run

VARIANTS = {  # arguments of programs/cost.py, the trace
    "nothing": ((), None),
    "vramtrace": ((), "run.vrt"),
    "PyTorch history, stacks=python": (("--recorder", "python"), None),
    "PyTorch history, stacks=all": (("--recorder", "all"), None),
}
ROUNDS = 5
# Of the card's own time a recorder takes none.
GPU_BOUND_LIMIT = 1.02


def measured(folder, seconds):
    """Variant → what is timed → its values."""
    seen, started = {name: {} for name in VARIANTS}, time.monotonic()
    for number in range(ROUNDS):
        for name, (arguments, trace) in VARIANTS.items():
            done = needed(run([PYTHON, PROGRAMS / "cost.py", *arguments], folder, name=trace))
            for what, value in json.loads(done.stdout.splitlines()[-1]).items():
                seen[name].setdefault(what, []).append(value)
        spent = time.monotonic() - started
        if spent + 1.2 * spent / (number + 1) > seconds:
            break
    return seen


def cost(figures, folder):
    seen = measured(folder, figures.seconds)
    figures.told("rounds", len(next(iter(seen["nothing"].values()))))
    for what in seen["nothing"]:
        bare = statistics.median(seen["nothing"][what])
        for name, values in seen.items():
            figures.told(f"{what} · {name}", f"{statistics.median(values[what]):.3f} ({min(values[what]):.3f}–{max(values[what]):.3f})",
                         "nothing", round(bare, 3))
    key = "GPU-bound step, ms"
    if key in seen["nothing"]:
        figures.below("GPU-bound step, least of the rounds: with vramtrace / without",
                      min(seen["vramtrace"][key]) / min(seen["nothing"][key]), GPU_BOUND_LIMIT)
