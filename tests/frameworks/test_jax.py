"""JAX: each buffer of its CUDA plugin, against the arrays that JAX says are alive."""
import csv
import io
import json
import sys

import pytest

from support import Framework
from helpers import RUN, events, info, report, vramtrace

jax = Framework("venv-frameworks", "jax_plugins/xla_cuda13")
pytestmark = jax.needed
SETTINGS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
            "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={jax.packages}/nvidia/cu13"} if RUN else {}
ROUND = 256  # of XLA's allocator


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    trace = tmp_path_factory.mktemp("jax") / "run.vrt"
    return trace, jax.run("jax_script.py", trace, *(["stand-in"] if RUN else []), **SETTINGS)


def test_blocks_are_the_live_arrays(recorded):
    trace, truth = recorded
    assert len(truth) == 7
    for mark, told in truth.items():
        view = report(trace, "--by", "block", "--at", f"mark:{mark}")["devices"][0]["at"]
        assert sorted([b["address"], b["bytes"]] for b in view["blocks"] if b["kind"] == "block") == told["blocks"], mark
        # Between executions nothing else is in use.
        assert sum((size + ROUND - 1) // ROUND * ROUND for _, size in told["blocks"]) <= told["in_use"] <= view["segment_bytes"]
    vramtrace("info", "--verify", trace)
    seen = info(trace)
    assert seen["trace"]["dropped"] == 0 and seen["counts"]["kinds"]["free"]["framework"] > 5
    assert seen["counts"]["kinds"]["alloc"]["framework"] - seen["counts"]["kinds"]["free"]["framework"] >= 0


def test_blocks_have_the_lines_that_made_them(recorded):
    trace, _ = recorded
    lines = report(trace, "--by", "line", "--at", "mark:made")["devices"][0]["at"]["lines"]
    ours = [line for line in lines if line["file"].endswith("jax_script.py") and line["function"] == "make_parameters"]
    # On a GPU cuDNN takes memory there, too.
    assert sum(line["bytes"] - line["categories"].get("workspace", 0) for line in ours) == 4 * (300 * 200 + 200 * 11), lines


# ---- names ----

NAMES = {**SETTINGS, **({"VRAMTRACE_STANDIN_DEVICES": "2",
                         # Of CUDA graphs' kernels the stand-in knows no parameters.
                         "XLA_FLAGS": SETTINGS["XLA_FLAGS"] + " --xla_gpu_enable_command_buffer="} if RUN else {})}
libraries = jax.with_packages("venv-jax-libraries", "optax")


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    if not libraries:
        pytest.skip("no optax: tests/setup.sh setup_frameworks")
    trace = tmp_path_factory.mktemp("names") / "run.vrt"
    return trace, jax.run("jax_names_script.py", trace, *(["stand-in"] if RUN else []), **NAMES, **libraries)


def blocks_at(trace, mark):
    """{(device, address): block}"""
    view = report(trace, "--by", "block", "--top", "100000", "--at", f"mark:{mark}")
    return {(device["index"], block["address"]): block for device in view["devices"] for block in device["at"]["blocks"]
            if block["kind"] == "block"}


def paths_of(told):
    """{(device, address): all paths that lead there}"""
    paths = {}
    for path, device, address, _ in told["named"]:
        paths.setdefault((device, address), set()).add(path)
    return paths


def test_arrays_have_their_paths(named):
    """Each array that a path leads to has one of its paths, none has another's; frees and donated arrays have ended."""
    trace, truth = named[0], named[1]["taken"]
    assert len(truth) >= 6
    for mark, told in truth.items():
        blocks, paths = blocks_at(trace, mark), paths_of(told)
        assert {(device, address, block["bytes"]) for (device, address), block in blocks.items()} == set(map(tuple, told["alive"])), mark
        assert len(paths) >= 25 or mark == "half", mark
        for place, block in blocks.items():
            if place in paths:
                assert block["owner"] in paths[place], (mark, block)
            else:
                assert not block["owner"] or block["owner"].startswith("hidden"), (mark, block)
    vramtrace("info", "--verify", trace)
    seen = info(trace)["trace"]
    assert seen["dropped"] == 0


def test_what_no_path_leads_to_has_none(named):
    trace, truth = named[0], named[1]["taken"]
    blocks, paths = blocks_at(trace, "kept"), paths_of(truth["kept"])
    unnamed = [block for place, block in blocks.items() if place not in paths]
    assert len(unnamed) == 2 and all(block["owner"] is None and "hidden" in block["held_by"] for block in unnamed), unnamed


EXACT = {"opt_state": "optimizer_state", "trainer.": "optimizer_state", "state.params": "parameter",
         "state.opt_state.acc_grads": "gradient",
         "state.opt_state.inner": "optimizer_state", "model.first": "parameter", "model.blocks": "parameter", "model.norm.mean": "buffer",
         "model.norm.scale": "parameter"}
STRONG = {"params": "parameter", "grads": "gradient"}  # like the state's trees


def inspected(trace):
    """Events that made what was alive at an inspection."""
    inspections = [each["index"] for each in events(trace) if each["kind"] == "look"]
    return {int(each["alloc_event"]) for each in csv.DictReader(io.StringIO(
        vramtrace("export", "--format", "csv", "--table", "allocations", "-o", "-", trace).stdout))
        if any(int(each["alloc_event"]) < at < int(each["free_event"] or sys.maxsize) for at in inspections)}


def test_arrays_of_other_calls_have_the_paths_of_that_line(named):
    """Of steps that no inspection saw: what the same call makes in another step. One in time may have seen one."""
    trace, between = named[0], named[1]["between"]
    seen = inspected(trace)
    for mark, told in between.items():
        blocks, paths = blocks_at(trace, mark), paths_of({"named": told})
        assert len(paths) == 33
        for place, block in blocks.items():
            assert block["owner"] in paths.get(place, {"batch"}), (mark, block)
            expected = "optimizer_state" if "opt_state" in block["owner"] else "parameter" if "params" in block["owner"] else "gradient"
            evidence = {"strong", "exact"} if block["alloc_event"] in seen and "opt_state" in block["owner"] else {"strong"}
            assert block["owner"] == "batch" or block["category"] == expected and block["evidence"] in evidence, (mark, block)


def test_categories_are_what_classes_and_structures_tell(named):
    """Exact by a class of Optax's or Flax's on the path, strong by a name and the structure of such state; else not told."""
    trace, truth = named[0], named[1]["taken"]
    seen = set()
    for mark in truth:
        for block in blocks_at(trace, mark).values():
            owner, told = block["owner"] or "", (block["category"], block["evidence"])
            for beginning, category in EXACT.items():
                if owner.startswith(beginning):
                    assert told == (category, "exact"), block
                    seen.add(beginning)
            for beginning, category in STRONG.items():
                if owner.startswith(beginning):
                    assert told == (category, "strong"), block
                    seen.add(beginning)
            if owner.startswith(("batch", "weights", "kept", "frozen", "run.")):
                assert block["evidence"] == "weak" and block["category"] in ("unknown", "temporary", "other"), block
    assert seen == set(EXACT) | set(STRONG)


def test_parts_on_several_devices_have_the_same_path(named):
    trace, truth = named[0], named[1]["taken"]
    if "spread" not in truth:
        pytest.skip("one device")
    owners = {device: {block["owner"] for (at, _), block in blocks_at(trace, "spread").items() if at == device} for device in (0, 1)}
    assert {"spread['rows']", "spread['copies']"} <= owners[0] & owners[1]
    half = blocks_at(trace, "half")
    assert {block["owner"] for block in half.values()} & {"spread['rows']", "spread['copies']", "first"} == {"spread['copies']"}


def test_a_program_that_looks_at_all_its_objects_sees_the_same(named, tmp_path):
    """Inspections make no array and no other object, keep none alive, and leave the collector as it was."""
    truth = named[1]["taken"]
    alone = jax.run("jax_names_script.py", tmp_path / "none.vrt", *(["stand-in"] if RUN else []), preload=False, **NAMES, **libraries)

    def shape(told):
        return {mark: (each["changed"], sorted((path, device, size) for path, device, _, size in each["named"]),
                       sorted((device, size) for device, _, size in each["alive"])) for mark, each in told.items()}
    assert shape(alone["taken"]) == shape(truth)


# ---- steps that the program marks, and memory that runs out ----

@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    if not RUN:
        pytest.skip("fills the card: only over the stand-in, whose size can be set")
    trace = tmp_path_factory.mktemp("filled") / "run.vrt"
    # Beyond the card: so the driver refuses, not XLA's own limit.
    return trace, jax.run("jax_memory_script.py", trace, "stand-in", **NAMES | {
        "VRAMTRACE_STANDIN_MEMORY": "700MiB", "VRAMTRACE_STANDIN_DEVICES": "1", "XLA_PYTHON_CLIENT_MEM_FRACTION": "1.8"})


def test_results_that_were_refused_are_no_blocks(filled):
    """Their objects exist, and say addresses that are none."""
    trace, truth = filled
    assert "RESOURCE_EXHAUSTED" in truth["message"] and len(truth["taken"]) > 8
    for mark, alive in truth["taken"].items():
        assert sorted([address, block["bytes"]] for (_, address), block in blocks_at(trace, mark).items()) == alive, mark


def test_what_is_kept_is_not_temporary(filled):
    trace, truth = filled
    for mark in truth["taken"]:
        assert not [block for block in blocks_at(trace, mark).values() if block["category"] == "temporary"], mark


def test_running_out_of_memory_is_told_with_its_cause(filled):
    trace, truth = filled
    found = json.loads(vramtrace("oom", "--json", trace).stdout)
    assert len(found["out_of_memory"]) == 1 and found["last"]["causes"][0]["holder"].startswith("list 'history'")
    assert not [cause for cause in found["last"]["causes"] if "model" in cause["kind"]]
    steps = len([mark for mark in truth["taken"] if mark.startswith("step")])
    leaks = json.loads(vramtrace("leaks", "--json", trace).stdout)["devices"][0]["leaks"]
    assert leaks[0]["bytes_per_step"] == 2048 * 2048 * 4 and steps > 6
    text = "".join(vramtrace(command, trace).stdout for command in ("report", "oom", "leaks", "frag"))
    for word in ("torch", "PYTORCH", "graph", "state_dict", "emptied its cache", "in init ("):
        assert word not in text, word


def test_what_its_own_limit_refuses_is_not_denied(recorded):
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" in vramtrace("oom", recorded[0]).stdout
