"""The page of published.py."""
import fnmatch
import statistics

from published_inputs import SPREAD

BOUNDS = (0.001, 0.2, 1, 5)  # percent
# What was found of rows that are off, or that do not run.
EXAMINED = {
    "adamss--llama-3.2-3B-rank32": "the shapes of its layers come from clusters of the true weights' singular vectors, which are not here.",
    "fourierft--flux2-klein-default": "cuFFT's work area for two dimensions is a model (`simulate/cufft.c`); with none, reserved is "
                                      "8.6 % lower.",
    "shira--*": "its layers ask how many entries a mask of the weight's size has: 19 MB are too many to compute, so 0 is told.",
    "waveft--flux2-klein-default": "its wavelets are transposed convolutions of the size of a weight; the work area that cuDNN takes for "
                                   "convolutions is not known, 0 here (deduced: nothing else in it asks a library for memory).",
}


class Images:
    kinds = ("allocated", "reserved")
    text = """## Fine-tunings with images

FLUX.2-klein-base-4B on a real NVIDIA L40S, published by huggingface/peft (`method_comparison/image-gen`), and the same scripts under
`vramtrace dryrun --gpu {gpu}` with the published releases of the packages, random weights and images of noise. MB (1e6 bytes): means of
what the script reads after each of its first {period} steps ({steps} here), less what was reserved before the model was made.
"""


class Texts:
    kinds = ("allocated", "reserved", "largest")
    text = """## Fine-tunings with texts

Llama-3.2-3B on MetaMathQA on the same card, published there too (`method_comparison/MetaMathQA`). The texts' lengths vary, and are not
published but for their mean; nor is the data set here. Lengths are drawn from a gamma distribution of that mean, the same for all rows;
its spread ({spread} of the mean) was fitted on the two rows marked \\*. {steps} steps instead of 5000: batches of an average bucket (the
script sorts 80 texts by length and empties the cache after ten batches), and those around the longest text. MB (1e6 bytes): means of
what the script reads after each of its first {period} steps, allocated and reserved, and the largest reserved of the whole run.
"""


def difference(ours, published):
    return (ours / published - 1) * 100


def percent(value):
    return f"{round(value, 3) + 0.0:+.3f} %"  # no -0.000


def summary(kinds, differences, total):
    yield "| | median | largest | " + " | ".join(f"within {bound} %" for bound in BOUNDS) + " |"
    yield "|---|--:|--:|" + "--:|" * len(BOUNDS)
    for kind in kinds:
        sizes = [abs(value) for value in differences[kind]]
        within = " | ".join(f"{sum(size <= bound for size in sizes)} of {total}" for bound in BOUNDS)
        if sizes:
            yield f"| {kind} | {statistics.median(sizes):.3f} % | {max(sizes):.3f} % | {within} |"


def row(experiment, ours, kinds, fitted, steps):
    """(differences, line)"""
    differences = {kind: difference(ours[kind], experiment.bytes[kind]) for kind in kinds}
    cells = [f"{experiment.bytes[kind] / 1e6:.3f} | {ours[kind] / 1e6:.3f} | {percent(differences[kind])}" for kind in kinds]
    same = ours["parameters"] == experiment.parameters
    note = "" if same else f" ({ours['parameters']} parameters, published {experiment.parameters})"
    note += "" if ours["steps"] == steps else f" ({ours['steps']} steps)"
    note += " †" if ours.get("short") else ""
    name = experiment.name.replace("--flux2-klein", "").replace("--llama-3.2-3B", "").removesuffix("-default")
    return differences, f"| {name}{' *' if experiment.name in fitted else ''}{note} | {' | '.join(cells)} |"


def part(task, experiments, found, gpu, more, fitted=()):
    """Lines; EXPERIMENTS are published, FOUND is {name: what was found here}."""
    page, lines, failed, not_run = task.page, [], [], []
    differences = {kind: [] for kind in page.kinds}
    for experiment in experiments:
        ours = found.get(experiment.name)
        if not ours:
            not_run.append(experiment.name)
        elif ours.get("failed"):
            failed.append(f"- {experiment.name}: {ours['failed']}")
        else:
            one, line = row(experiment, ours, page.kinds, fitted, task.steps)
            lines.append(line)
            if experiment.name not in fitted:
                for kind, value in one.items():
                    differences[kind].append(value)
    yield page.text.format(gpu=gpu, period=task.period, steps=task.steps, spread=SPREAD)
    yield from summary(page.kinds, differences, len(experiments) - len(fitted))
    yield "\n| experiment |" + " |".join(f" {kind}: published | ours | " for kind in page.kinds) + " |"
    yield "|---|" + "--:|--:|--:|" * len(page.kinds)
    yield from lines
    if any(ours.get("short") for ours in found.values()):
        yield (f"\n† Did not fit into our {gpu.upper()} (its memory less the context, which is estimated), as it did into the real one; "
               f"repeated with `--gpu-memory {more}`.")
    if failed:
        yield "\nDid not run:\n"
        yield from failed
    if not_run:
        yield f"\nNot run: {', '.join(not_run)}."
    examined = [f"- {names}: {text}" for names, text in EXAMINED.items() if fnmatch.filter([one.name for one in experiments], names)]
    if examined:
        yield "\nExamined:\n"
        yield from examined
    yield "\nReleases:\n"
    for versions in dict.fromkeys(experiment.versions() for experiment in experiments):
        yield f"- {versions}: {sum(experiment.versions() == versions for experiment in experiments)}"
    yield ""
