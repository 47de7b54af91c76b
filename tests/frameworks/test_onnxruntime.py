"""ONNX Runtime over the driver's books: its arena is hidden, so what the arena took is what is seen."""
import pytest

from support import Framework
from helpers import report, vramtrace

onnxruntime = Framework("venv-frameworks", "onnxruntime", 13)
pytestmark = onnxruntime.needed
MODEL_BYTES = 4 << 20


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    trace = tmp_path_factory.mktemp("onnxruntime") / "run.vrt"
    return trace, onnxruntime.run("onnxruntime_script.py", trace)


def test_bytes_and_categories(recorded):
    trace, truth = recorded
    for mark, in_use in truth.items():
        view = report(trace, "--at", f"mark:{mark}")["devices"][0]["at"]
        if in_use is not None:
            assert view["driver_bytes"] - view["categories"]["context"] == in_use
        if mark.startswith("run"):
            assert view["categories"]["parameter"] == MODEL_BYTES <= view["categories"]["activation"]
    vramtrace("info", "--verify", trace)


def test_lines(recorded):
    lines = report(recorded[0], "--by", "line", "--at", "mark:run0")["devices"][0]["at"]["lines"]
    assert {line["file"].rpartition("/")[2] for line in lines} == {"onnxruntime_script.py"}
