import shutil
import subprocess

import pytest

from harness import ANALYZER, HERE, LIBRARIES, STANDIN


@pytest.fixture(params=["lines", "trace"])
def recorder(request):
    """Each way to see what the hooks record: harness.LIBRARIES."""
    if request.param == "trace" and not (ANALYZER.exists() and LIBRARIES["trace"].exists()):
        pytest.skip("the recorder or the analyzer is not built")
    return request.param


@pytest.fixture(scope="session")
def static_program(tmp_path_factory):
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        pytest.skip("nvcc was not found: programs with a static libcudart cannot be built here")
    program = tmp_path_factory.mktemp("static") / "way_static"
    # An earlier -L makes nvcc's own -lcudart_static find the stand-in's.
    subprocess.run([nvcc, "-g", "-DPLUGIN", "-L", STANDIN, "-o", program, HERE / "programs" / "way_static.cu",
                    HERE / "programs" / "way_runtime.c"], check=True)
    needed = subprocess.check_output(["readelf", "-dW", program], text=True)
    assert "libcudart" not in needed and "libcuda.so" not in needed
    return program
