"""Whole programs under `vramtrace dryrun`: the bytes, the values, when it ends and what it says."""
import json
import re
import sys

import pytest

from dry import HERE, PROGRAM, PYTHON, dry, python, sequence

sys.path.insert(0, str(HERE.parent))
from helpers import RUN, run, short, shown_bytes  # noqa: E402

TRAIN = str(HERE.parent / "torch" / "train_script.py")
GPU = "a100-40gb"
MIB = 1 << 20


def train(folder, name, *options, **settings):
    done = python(folder, TRAIN, name, "--steps", "3", "--truth", "truth.json", "--history", "history.json",
                  options=("--gpu", GPU, "--batches", "0", "--steps", "100", *options), **settings)
    assert done.status == 0, done.error
    return done, json.loads((folder / "truth.json").read_text()), json.loads((folder / "history.json").read_text())[0]


@pytest.mark.skipif(not RUN, reason="compares with the simulated libraries alone")
@pytest.mark.parametrize("name", ["mlp_adam", "resnet50"])
def test_the_same_bytes_as_the_simulated_libraries_alone(name, tmp_path):
    done, truth, _ = train(tmp_path, name, "--values", "off")
    plain = tmp_path / "plain.json"
    run([PYTHON, TRAIN, name, "--steps", "3", "--truth", plain], preload=False, VRAMTRACE_STANDIN_GPU=GPU)
    keys = ("name", "step", "allocated", "max_allocated", "reserved", "driver_bytes", "categories")
    there, here = ([[mark[key] for key in keys] for mark in marks] for marks in (truth["marks"], json.loads(plain.read_text())["marks"]))
    assert there == here
    assert done.report()["devices"][0]["peak"]["block_bytes"] == truth["marks"][-1]["max_allocated"]


@pytest.mark.parametrize("name", short(["transformer_amp", "mlp_sgd", "mlp_adam", "gpt_checkpoint", "resnet50", "gpt"]))
def test_computing_leaves_the_allocator_alone(name, tmp_path):
    """With kernels in place that compute nothing, and with values, each allocation is that of a run without, and has the same owner."""
    found, told = [], []
    for values in ("off", "nothing", "on"):
        (tmp_path / values).mkdir()
        done, _, history = train(tmp_path / values, name, VRAMTRACE_DRYRUN_VALUES=values)
        found.append(sequence((event["action"], event["size"]) for event in history))
        peak = done.report()["devices"][0]["peak"]
        told.append([peak["categories"], peak["step"], peak["phase"], done.answer[:-1]])
        told[-1] += [[(row["name"], row["bytes"]) for row in peak[by]] for by in ("lines", "modules", "ops")]
    assert len(found[0]) > 100 and found[0] == found[1] == found[2]
    assert told[0] == told[1] == told[2]


def test_values(tmp_path):
    done = python(tmp_path, "values.py", "cuda")
    assert done.status == 0, done.error
    there, here = json.loads(done.output), json.loads(run([PYTHON, HERE / "programs/values.py", "cpu"], preload=False).stdout)
    assert there == here


def test_recurrent_networks(tmp_path):
    done = python(tmp_path, "recurrent.py")
    assert done.output.split("\n")[:-2] == [f"{cell} True" for cell in ("LSTM", "GRU", "RNN") for _ in range(3)], done.error
    assert done.output.endswith("packed torch.Size([25, 16])\n") and done.status == 0


def test_elements_of_sparse_tensors_that_meet(tmp_path):
    """The size of the result depends on values: it was read from memory that nobody had written."""
    done = python(tmp_path, "sparse_counts.py")
    assert done.status == 0 and done.output.splitlines() == ["3 [[0, 1, 2], [2, 0, 1]] [4.0, 7.0, 4.0]", "0"], done.error


def test_large_matrices_are_not_computed(tmp_path):
    done = python(tmp_path, "decomposed.py")
    assert done.output.splitlines() == [
        "(6000, 4000) (4000,) (4000, 4000)", "(6000, 4000) (4000, 4000) (4000,) (4000, 4000)", "(4000, 4000) (4000, 4000) (4000, 4000)",
        "True [9.0, 4.0] [2.0, 3.0]", "(4000, 4000) True [16.0, 81.0]"], done.error


def test_a_loader_ends_early_and_what_follows_is_reached(tmp_path):
    done = python(tmp_path, "loops.py", "loader")
    assert done.output.splitlines() == ["epoch 0: 3 of 100 batches", "evaluated 3", "epoch 1: 1 of 100 batches", "evaluated 1",
                                        "epoch 2: 1 of 100 batches", "evaluated 1", "end"]
    assert done.status == 0 and done.verdict == "✓ fits"


def test_a_loader_that_begins_anew_for_ever(tmp_path):
    done = python(tmp_path, "loops.py", "anew")
    assert done.status == 0 and "ended after 30 steps of SGD" in done.error, done.error


def test_gradients_of_several_batches_are_added_up(tmp_path):
    done = python(tmp_path, "loops.py", "added")
    assert done.output.splitlines() == ["epoch 0: 16 batches, 2 steps, 3 evaluated", "epoch 1: 1 batches, 0 steps, 1 evaluated",
                                        "epoch 2: 1 batches, 0 steps, 1 evaluated", "end"], done.error


def test_workers_of_a_loader(tmp_path):
    done = python(tmp_path, "loops.py", "loader", "2", options=("--batches", "5"))
    assert "epoch 0: 5 of 100 batches" in done.output and done.output.endswith("end\n") and done.status == 0, done.error


def test_all_batches(tmp_path):
    done = python(tmp_path, "loops.py", "loader", options=("--batches", "0"))
    assert done.output.splitlines()[-3:] == ["epoch 2: 100 of 100 batches", "evaluated 100", "end"] and done.status == 0, done.error


def test_tensors_of_the_gpu_in_other_processes(tmp_path):
    done = python(tmp_path, "shared_tensor.py")
    assert done.output.split("\n")[:2] == ["torch.Size([1000, 1000]) cuda:0", "end"] and done.status == 0, done.error


def test_large_tensors_are_holes_in_files(tmp_path):
    done = python(tmp_path, "saved.py")
    lines = done.output.splitlines()
    assert lines and all(line.endswith("(16777216,) [3.0, 4.0, 5.0] 64 True") for line in lines), done.error


def test_files_that_were_there_stay(tmp_path):
    for name in ("x.pt", "x.safetensors"):
        (tmp_path / name).write_text("weights of days")
    done = python(tmp_path, "saved.py", "no load")
    assert (tmp_path / "x.pt").read_text() == (tmp_path / "x.safetensors").read_text() == "weights of days"
    assert (tmp_path / "x.pt.dryrun").exists() and "x.pt stays as it is" in done.error and done.status == 0


@pytest.mark.parametrize("options,steps", [((), 3), (("--steps", "5"), 5)])
def test_a_loop_without_a_loader_ends_after_steps(options, steps, tmp_path):
    done = python(tmp_path, "loops.py", "steps", options=options)
    assert done.output.splitlines()[-1] == f"step {steps - 2}" and done.status == 0
    assert f"ended after {steps} steps of SGD" in done.error and f"  {steps} steps · h100-80gb, values on" in done.error


def test_a_time_limit(tmp_path):
    done = python(tmp_path, "loops.py", "forever", options=("--steps", "100000000", "--time", "15s"))
    assert "ended at the time limit of 15 s" in done.answer[-1] and done.verdict == "✓ fits" and done.status != 0


def test_memory_runs_out_as_on_the_gpu(tmp_path):
    done = python(tmp_path, "too_large.py", options=("--gpu", "t4"))
    assert done.status == 1 and "torch.OutOfMemoryError: CUDA out of memory" in done.error
    assert done.verdict == "✗ does not fit" and done.gpu == "Tesla T4"
    told = done.report()
    assert told["out_of_memory"][-1]["requested_bytes"] == 300 * MIB
    free = told["out_of_memory"][-1]["free_bytes"]
    assert done.answer[0].endswith(f"300 MiB needed in {told['out_of_memory'][-1]['phase']}, {shown_bytes(free)} free")


@pytest.mark.parametrize("size,kept", [("1GiB", 2), ("3.5GiB", 11)])
def test_memory_of_any_size(size, kept, tmp_path):
    """The context of an L4 takes 258 MiB of it."""
    done = python(tmp_path, "too_large.py", options=("--gpu-memory", size, "--gpu", "l4"))
    assert done.report()["devices"][0]["total_bytes"] == float(size[:-3]) * (1 << 30)
    assert done.report()["devices"][0]["peak"]["block_bytes"] == kept * 300 * MIB


def test_the_answer_has_the_figures_of_the_report(tmp_path):
    done, truth, _ = train(tmp_path, "gpt")
    device = done.report()["devices"][0]
    reserved = max(mark["reserved"] for mark in truth["marks"])
    context = truth["context_bytes"]
    needed, there = shown_bytes(reserved + context), shown_bytes(device["total_bytes"])
    assert done.answer[0].startswith(f"✓ fits on NVIDIA A100-SXM4-40GB: {needed} of {there} ")
    assert done.answer[1].startswith(f"  peak {shown_bytes(truth['marks'][-1]['max_allocated'])} in use, step ")
    assert done.answer[1].endswith(f"; {shown_bytes(reserved)} reserved")
    assert len(done.answer) == 5 and "vramtrace report x.vrt" in done.answer[-1]


def test_a_simulated_trace_says_so(tmp_path):
    done = python(tmp_path, "loops.py", "steps")
    mark = "h100-80gb, values on"
    assert done.report()["trace"]["simulated"] == mark
    for command in ("report", "oom", "leaks", "steps"):
        assert f"simulated: {mark}" in dry_text(command, done.trace)
    assert f"Both are simulated: A on {mark}" in " ".join(dry_text("diff", f"{done.trace}@step:1", done.trace).split())
    assert "(simulated)" in dry_text("check", "--max-peak", "1GiB", done.trace)
    page = tmp_path / "x.html"
    dry_text("html", "-o", page, done.trace)
    assert f'"simulated":"{mark}"' in re.sub(r"\s", "", page.read_text()).replace(mark.replace(" ", ""), mark)


def dry_text(*arguments):
    import subprocess
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_a_measured_trace_beside_a_simulated_one(tmp_path):
    done = python(tmp_path, "loops.py", "steps")
    run([PYTHON, HERE / "programs/loops.py", "loader"], tmp_path / "real.vrt")
    told = dry_text("diff", done.trace, tmp_path / "real.vrt").splitlines()
    assert told[1].startswith("A is simulated (h100-80gb, values on), B was measured")


LAUNCHERS = {"torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
             "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
                            "--mixed_precision", "no", "--dynamo_backend", "no"]}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_on_simulated_gpus(launcher, tmp_path):
    command = [PYTHON, "-m", *LAUNCHERS[launcher], HERE / "programs/sharded.py"]
    done = dry(tmp_path, command, "--gpu", "h100-80gb:2", "--steps", "9")
    assert done.status == 0, done.error
    words = done.output.split()
    assert words[:4] == ["sum", "3.0", "devices", "2"] and done.verdict == "✓ fits"
    assert f"peak {shown_bytes(max(map(int, words[5:])))} in use" in done.answer[1] and "2 GPUs need" in done.answer[1]


def test_the_users_own_sitecustomize_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'mine'\n")
    (tmp_path / "x.py").write_text("print(mine)\nimport importlib.util, torch\n"
                                   "print(importlib.util.find_spec('torch').name, torch.zeros(2, device='cuda').sum().item())\n")
    done = python(tmp_path, str(tmp_path / "x.py"), PYTHONPATH=str(tmp_path))
    assert done.output.split() == ["mine", "torch", "0.0"], done.error
