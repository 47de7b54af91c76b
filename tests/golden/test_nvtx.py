"""NVTX marks and ranges, with the library as NVTX's injection library."""
import pathlib
import shutil
import subprocess

import pytest

from harness import HERE, STANDIN, run

EXPECTED = [
    ("mark", "first mark"), ("mark", "wide é €"), ("mark", "hal😀f"), ("range_push", "outer"), ("range_push", "inner"),
    ("range_pop", None), ("range_pop", None), ("mark", "extended"), ("mark", "extended"),
    ("range_push", "extended range"), ("range_pop", None), ("range_push", "registered"), ("range_pop", None),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    header = pathlib.Path("/usr/local/cuda/include/nvtx3/nvToolsExt.h")
    if not header.exists():
        pytest.skip("the NVTX headers were not found")
    built = tmp_path_factory.mktemp("nvtx") / "nvtx_marks"
    subprocess.run([shutil.which("cc"), HERE / "programs" / "nvtx_marks.c", "-I", header.parent.parent, "-L",
                    STANDIN, "-l:libcuda.so.1", "-ldl", "-o", built], check=True)
    return built


def test_marks_and_ranges(tmp_path, recorder, program):
    done = run(tmp_path, [program], recorder, NVTX_INJECTION64_PATH="RECORDER")
    assert done.returncode == 0, done.error
    seen = [(e.kind, e.get("text")) for e in done.of("mark", "range_push", "range_pop")]
    assert seen == EXPECTED
    # Levels as NVTX defines them: pushes count from 0, a pop of nothing is negative.
    assert done.output.split() == "push 0 push 1 push 2 pop 2 pop 1 pop 0 pop -2".split()


def test_range_that_a_worker_ends(tmp_path, program):
    """It begins no trace of its own by that."""
    done = run(tmp_path, [program], "trace", NVTX_INJECTION64_PATH="RECORDER", NVTX_FORK=1)
    assert done.returncode == 0, done.error
    assert [e.kind for e in done.of("range_push", "range_pop")][-2:] == ["range_push", "range_pop"]
    assert [path.name for path in tmp_path.iterdir()] == ["recorded"]


def test_not_injected(tmp_path, recorder, program):
    done = run(tmp_path, [program], recorder)
    assert done.returncode == 0 and not done.of("mark", "range_push", "range_pop") and done.of("alloc")
