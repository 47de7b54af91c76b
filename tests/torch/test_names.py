"""Names by looking: every parameter, buffer, gradient and optimizer tensor at every mark, against what the script
itself says of them."""
import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = map(str, (HERE.parent / "corpus", HERE.parent))
import judge  # noqa: E402
from helpers import PYTHON, report, run, selected  # noqa: E402

MODELS = ("mlp_sgd", "mlp_adam", "transformer_amp", "resnet50", "gpt", "gpt_checkpoint")
# What stands before a name: by model, in the order in which the script watches them. One model's names stand alone;
# several are told apart by what holds them, of which each has two: a variable, and the list of what is watched.
LIST = ("record.modules[0].", "record.modules[1].")
PREFIXES = {
    "gan": (("generator.", "discriminator."), LIST),
    "moving_average": (("model.", "average."), LIST),
    "distillation": (("teacher.", "model."), LIST),
    "distributed": (("wrapped.",),),
}
PROGRAMS = (
    "sgd_zero_grad_before_backward", "gradients_set_to_zero", "accumulate", "lora", "gan", "own_optimizer",
    "made_on_device", "gradient_scaler", "moving_average", "distillation", "killed_in_backward", "inference",
    "checkpoint_with_amp", "checkpoint_reentrant", "with_evaluation", "half_precision_model", "fused_optimizer",
    "recurrent", "leaked_graphs", "distributed",
)
# Told by right, and not in the truth: (run, mark) -> names. It reads .grad, where these two are not put yet.
NOT_COUNTED = {("killed_in_backward", "within_bwd"): {"model.2.weight · grad", "model.2.bias · grad"}}


def run_all(names, folder):
    """{name: (trace, marks of the truth)}, of runs in forks of a process that imports PyTorch once."""
    own, others = ([name for name in names if (name in MODELS) == is_model] for is_model in (True, False))
    scripts = [f"{name}={HERE / 'train_script.py'},{name},--truth,{folder / name}.truth,--names" for name in own]
    if own:
        ended = run([PYTHON, HERE / "children.py", folder, *scripts], folder / "%p.vrt").stdout.splitlines()[-1]
        assert json.loads(ended) == dict.fromkeys(own, 0), [(folder / f"{name}.log").read_text() for name in own]
    if others:
        judge.run(folder, ["--names", *others])
    return {name: (folder / f"{name}.vrt", judge.truth_of(folder, name)["marks"]) for name in names}


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    return run_all(selected(request, "name"), tmp_path_factory.mktemp("names"))


def expected_owners(tensors, prefixes):
    """(name, role, dtype, shape, bytes) → address, of every tensor that has memory."""
    names = {}
    for tensor in tensors:
        if tensor["role"] in ("parameter", "buffer"):
            prefix = prefixes[tensor["model"]]
            names.setdefault((tensor["address"], tensor["bytes"]), []).append(prefix + tensor["name"])
    tied = {name: " = ".join(together) for together in names.values() for name in together}
    owners = {}
    for tensor in tensors:
        if tensor["bytes"] == 0:
            continue
        name = tied[prefixes[tensor["model"]] + tensor["name"]]
        role = {"gradient": " · grad", "parameter": "", "buffer": ""}.get(tensor["role"], " · " + tensor["role"])
        shape = "x".join(map(str, tensor["shape"]))
        owners[name + role, tensor["role"], tensor["dtype"], shape, tensor["bytes"]] = tensor
    return owners


def prefixes_of(name, owners):
    ways = PREFIXES.get(name, (("model.",), ("workload.model.",), ("",)))  # a prefix where a Sequential has but numbers
    return next((way for way in ways if any(owner["name"].startswith(way[0]) for owner in owners)), ways[0])


def holding(blocks, address):
    return next(block for block in blocks if block["address"] <= address < block["address"] + block["bytes"])


@pytest.mark.parametrize("name", MODELS + PROGRAMS)
def test_names(runs, name):
    trace, marks = runs[name]
    assert marks
    count, wrong = {}, []
    for mark in marks:
        at = mark["name"]
        count[at] = count.get(at, 0) + 1
        view = report(trace, "--at", f"mark:{at}#{count[at]}", "--by", "block")["devices"][0]["at"]
        truth = expected_owners(mark["tensors"], prefixes_of(name, view["owners"]))
        told = {(owner["name"], owner["role"], owner["dtype"], owner["shape"], owner["tensor_bytes"]): owner
                for owner in view["owners"] if owner["role"]}
        wrong += [f"{at}#{count[at]}: not told: {key}" for key in truth.keys() - told.keys()]
        wrong += [f"{at}#{count[at]}: told: {key}" for key in told.keys() - truth.keys()
                  if key[0] not in NOT_COUNTED.get((name, at), ())]
        for key in truth.keys() & told.keys():
            block = holding(view["blocks"], truth[key]["storage"])
            if key[0] not in block["owner"]:
                wrong.append(f"{at}#{count[at]}: {key[0]} is where {block['owner']} is said to be")
        storages = {tensor["storage"]: tensor["storage_bytes"] for tensor in truth.values()}
        rounding = sum(holding(view["blocks"], address)["bytes"] - size for address, size in storages.items())
        if (name, at) not in NOT_COUNTED and view["rounding_bytes"] != rounding:
            wrong.append(f"{at}#{count[at]}: {view['rounding_bytes']} of rounding, truly {rounding}")
        sums = {category: sum(owner["categories"].get(category, 0) for owner in view["owners"])
                for category in ("parameter", "buffer", "gradient", "optimizer_state", "activation")}
        wrong += [f"{at}#{count[at]}: owners of {category} have {bytes}" for category, bytes in sums.items()
                  if bytes != view["categories"][category]]
    assert not wrong, "\n".join(wrong[:60])
