"""Frameworks whose libraries have NVIDIA's runtime inside, which refuses any driver but NVIDIA's: they do not run without a
GPU. What they look up must be our wrappers; their memory is then seen as the driver gives it."""
import re

import pytest

from support import Framework
from helpers import ROOT, RUN

HOOKED = re.findall(r"^VT_WRAPPED\((\w+)", (ROOT / "preload/hooks/hooks.def").read_text(), re.M)
ALLOCATE, ASYNC = {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc"}, {"cuMemAllocAsync"}
PROGRAMS = {  # environment, a folder that it has, the library with the runtime, a statement that uses it, what that must know
    "cupy": ("venv-frameworks", "cupy", "cuda/api/runtime.", "import cupy; cupy.zeros(10)", ALLOCATE | ASYNC),
    "rmm": ("venv-frameworks", "librmm", "librmm.so", "import rmm.mr; rmm.mr.CudaMemoryResource().allocate(1000)", ALLOCATE | ASYNC),
    # CUDA 10.1
    "megengine": ("venv-megengine", "megengine", "libmegengine_shared.so",
                  "import megengine; megengine.tensor([1.0], device='gpu0')", ALLOCATE),
}


@pytest.mark.skipif(not RUN, reason="with a GPU they run: tests/gpu")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_runtime_keeps_our_wrappers(name, tmp_path):
    environment, package, library, statement, known = PROGRAMS[name]
    framework = Framework(environment, package)
    if not framework.there:
        pytest.skip(f"no {package}: tests/setup.sh setup_{environment.removeprefix('venv-')}")
    with_us = framework.run("lookups_script.py", tmp_path / "none.vrt", library, statement, *HOOKED)
    without = framework.run("lookups_script.py", tmp_path / "none.vrt", library, statement, *HOOKED, preload=False)
    assert with_us["ended"].splitlines()[0] == without["ended"].splitlines()[0]  # then addresses may follow
    assert len(without["driver"]) > 40 and known <= set(without["driver"])
    assert with_us["driver"] == [] and with_us["recorder"] == without["driver"]
    assert not (tmp_path / "none.vrt").exists()  # looking up is no use of CUDA
