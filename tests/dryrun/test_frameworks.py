"""Other frameworks than PyTorch under `vramtrace dryrun`."""
import os
import pathlib

import pytest

from dry import PROGRAMS, dry

CACHE = pathlib.Path(os.environ.get("VRAMTRACE_CACHE", pathlib.Path.home() / ".cache" / "vramtrace"))
PYTHON = CACHE / "venv-frameworks" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no JAX, no CuPy: tests/setup.sh setup_frameworks")


def test_jax_runs(tmp_path):
    """Its plugin compares the versions of NVIDIA's libraries with those it was built with, and takes the simulated runtime."""
    done = dry(tmp_path, [PYTHON, PROGRAMS / "jax_steps.py"])
    assert done.status == 0 and done.verdict == "✓ fits", done.error
    platform, peak = done.output.split()
    state = done.report()["devices"][0]["peak"]
    assert platform == "gpu" and int(peak) <= state["driver_bytes"] - state["context_bytes"] < 1.5 * int(peak)
    assert "values off" in done.answer[-1]


def test_cupy_is_refused_in_one_line(tmp_path):
    done = dry(tmp_path, [PYTHON, "-c", "import cupy; cupy.zeros(3)"])
    assert done.status == 1 and done.error.count("has NVIDIA's CUDA runtime inside") == 1
