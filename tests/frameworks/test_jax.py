"""JAX: each buffer of its CUDA plugin, against the arrays that JAX says are alive."""
import pytest

from support import Framework
from helpers import RUN, info, report, vramtrace

jax = Framework("venv-frameworks", "jax_plugins/xla_cuda13", 13)
pytestmark = jax.needed
SETTINGS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
            "XLA_FLAGS": "--xla_gpu_cuda_data_dir=/usr/local/cuda"} if RUN else {}
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
    assert sum(line["bytes"] for line in ours) == 4 * (300 * 200 + 200 * 11), lines
