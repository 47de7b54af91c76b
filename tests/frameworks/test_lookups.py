"""Frameworks whose libraries have NVIDIA's runtime inside, which refuses any driver but NVIDIA's: they do not run without a
GPU. What they look up must be our wrappers; their memory is then seen as the driver gives it."""
import re

import pytest

from support import Framework
from helpers import ROOT, RUN

HOOKED = re.findall(r"^VT_WRAPPED\((\w+)", (ROOT / "preload/hooks/hooks.def").read_text(), re.M)
PROGRAMS = {  # a folder that it has, the library with the runtime, a statement that uses it
    "cupy": ("cupy", "cuda/api/runtime.", "import cupy; cupy.zeros(10)"),
    "rmm": ("librmm", "librmm.so", "import rmm.mr; rmm.mr.CudaMemoryResource().allocate(1000)"),
}


@pytest.mark.skipif(not RUN, reason="with a GPU they run: tests/gpu")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_runtime_keeps_our_wrappers(name, tmp_path):
    package, library, statement = PROGRAMS[name]
    framework = Framework("venv-frameworks", package, 13)
    if not framework.there:
        pytest.skip(f"no {package}: tests/setup.sh setup_frameworks")
    with_us = framework.run("lookups_script.py", tmp_path / "none.vrt", library, statement, *HOOKED)
    without = framework.run("lookups_script.py", tmp_path / "none.vrt", library, statement, *HOOKED, preload=False)
    assert with_us["ended"] == without["ended"]
    assert len(without["driver"]) > 40 and {"cuMemAlloc_v2", "cuMemAllocAsync", "cuMemFree_v2"} <= set(without["driver"])
    assert with_us["driver"] == [] and with_us["shim"] == without["driver"]
    assert not (tmp_path / "none.vrt").exists()  # looking up is no use of CUDA
