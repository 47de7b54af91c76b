"""The category of every block, over many ways to train, compared with the truth that the scripts record (truth.py), with
inspections of live objects and without."""
import concurrent.futures
import pathlib
import sys

import pytest

sys.path[:0] = map(str, (pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[2]))
import table  # noqa: E402
from helpers import short  # noqa: E402

# Shares of bytes that must be right.
REQUIRED = {
    "parameters and buffers": 0.9999,
    "gradients": 1,
    "optimizer state": 1,
    "communication": 1,
    "workspaces": 0.9999,
    "KV caches": 0.99,
    "activations": 0.99,
    "inputs": 0.99,
    "temporaries": 0.99,
    "checkpoint copies": 0.9999,
}
REQUIRED_OF_ALL, UNKNOWN_LIMIT = 0.999, 0.001
# Known errors: (mode, training, group or None for all) -> the share that is right. Remove an entry when it is
# fixed.
KNOWN_WRONG = {
    # 512 bytes of an index that the script makes for one call.
    **{(mode, "cache_in_buffers", "inputs"): 0 for mode in ("rules", "inspections")},
    # Zeros that a module's constructor moves to the device: without their names they resemble its parameters.
    ("rules", "cache_in_attributes", None): 0.86,
    ("rules", "cache_in_attributes", "KV caches"): 0,
    ("rules", "cache_in_attributes", "parameters and buffers"): 0.7,
    # Parameters that the script replaces with what it computes in forward resemble what forward keeps.
    ("rules", "momentum_contrast", None): 0.86,
    ("rules", "momentum_contrast", "parameters and buffers"): 0.55,
    ("rules", "momentum_contrast", "activations"): 0.24,
    # Sums of gradients that outlive the step resemble other values that the script keeps.
    **{(mode, "fisher_information", group): share for mode in ("rules", "inspections")
       for group, share in ((None, 0.92), ("gradients", 0.7), ("activations", 0), ("temporaries", 0))},
    # Copies that an optimizer made of the weights become the weights; those of the last step after the last pass.
    **{("rules", "sam_with_closure", group): share
       for group, share in ((None, 0.94), ("parameters and buffers", 0.88), ("optimizer state", 0.83))},
    # Gradients that are dropped before their backward pass ends.
    **{(mode, "optimizer_in_backward", group): share for mode in ("rules", "inspections")
       for group, share in ((None, 0.93), ("gradients", 0), ("temporaries", 0.68))},
    # The static input of a graph, which asks for a gradient and never changes, is like a parameter.
    **{("rules", "graphed_trunk", group): share
       for group, share in ((None, 0.994), ("parameters and buffers", 0.95), ("inputs", 0.5))},
    # Tokens and chances that a policy keeps for later passes.
    **{(mode, "collected_experience", "inputs"): 0.39 for mode in ("rules", "inspections")},
    # 512 bytes of the model's tensors are after as many as the model has, where the state begins.
    **{(mode, "checkpoint_kept", group): 0.9996 for mode in ("rules", "inspections")
       for group in ("optimizer state", "checkpoint copies")},
    # Metrics of 512 bytes that stay.
    **{(mode, "scheduler_and_metrics", "inputs"): 0.98 for mode in ("rules", "inspections")},
    # 512 bytes of losses and batch sizes that Trainer makes.
    # What a policy makes without gradients for later passes resembles what any evaluation makes, noise that is added
    # to latents what forward makes. Noise and times of a sampler, prompts of other threads: inputs that the script
    # does not list.
    **{(mode, name, group): share for mode in ("rules", "inspections")
       for name, group, share in (("gpt2_trainer", "inputs", 0.96), ("four_models_of_one_size", "inputs", 0.35),
                                  ("group_relative_policy", "inputs", 0.5), ("latent_denoiser", "inputs", 0.94),
                                  ("latent_denoiser", "activations", 0.97), ("diffusers_unet", "inputs", 0.8),
                                  ("latent_sampling", "inputs", 0.08), ("pool_of_threads", "inputs", 0))},
}
# Trainings whose steps we count differently from the script.
KNOWN_STEPS = {
    "generate": 12,  # without backward, a step is a call of the model
    "sam_with_closure": 5,
    "graphed_trunk": 5, "graph_without_optimizer": 6,  # passes before and while a graph is captured are steps too
    "graphed_inference": 3, "weights_streamed": 12, "latent_sampling": 10,  # calls, as for generate
    "trials_kept": 8, "ensemble_in_turn": 4,  # several models take turns
    "llama_loop": 24, "quantized_cache": 24, "mistral_window": 32, "generate_static": 30, "generate_translation": 30,
    "grown_lists": 24, "after_warm_up": 48, "ring": 40, "cache_in_buffers": 24, "cache_in_attributes": 24, "paged_blocks": 35, "batching_dispatcher": 48, "gpt_of_functions": 20,
    "pool_of_threads": 72, "asked_by_tasks": 120, "collected_features": 8, "dense_features": 6,
    "sharpness_aware": 6,  # two passes a step, with the gradients dropped between them
}


# By rules all; with inspections, whose names tests/torch/test_names.py compares too, each third in the short form.
CHOSEN = {mode: set(table.all_names() if mode == "rules" else short(table.all_names())) for mode in table.MODES}


@pytest.fixture(scope="module", params=table.MODES)
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def examined(mode, request, tmp_path_factory):
    """All requested trainings in one run, which imports PyTorch once. Two reports run at a time."""
    asked = [item.callspec.params["name"] for item in request.session.items
             if item.originalname == "test_training" and item.callspec.params["mode"] == mode]
    asked = [name for name in asked if name in CHOSEN[mode]]
    folder, inspect = tmp_path_factory.mktemp(mode), table.MODES[mode]
    table.train(folder, inspect, asked)
    pool = concurrent.futures.ThreadPoolExecutor(2)
    yield {name: pool.submit(table.examine, folder, name, inspect) for name in asked}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", table.all_names())
def test_training(examined, mode, name):
    if name not in CHOSEN[mode]:
        pytest.skip("only in the long form: VRAMTRACE_LONG=1")
    result = examined[name].result()
    wrong = []
    for group, required in [(None, REQUIRED_OF_ALL), *REQUIRED.items()]:
        share = result.share(group)
        if share < KNOWN_WRONG.get((mode, name, group), required):
            wrong.append(f"{group or 'all'}: {share:.6f}")
    if result.unknown() >= UNKNOWN_LIMIT:
        wrong.append(f"unknown: {result.unknown():.6f}")
    steps = KNOWN_STEPS.get(name, result.true_steps)
    if result.step_count != steps:
        wrong.append(f"{result.step_count} steps, expected {steps}")
    blocks = {block.number: (moment.name, block) for moment in reversed(result.moments) for block in moment.wrong()}
    assert not wrong, "\n".join(wrong + [f"{moment}: {block}" for moment, block in list(blocks.values())[:40]])
