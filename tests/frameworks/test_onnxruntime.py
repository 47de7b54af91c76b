"""ONNX Runtime over the driver's books: its arena is hidden, so what the arena took is what is seen."""
import pytest

from support import Framework
from helpers import report, vramtrace

onnxruntime = Framework("venv-frameworks", "onnxruntime")
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


def test_the_card_has_the_programs_categories(recorded):
    """ONNX Runtime asks CUDA itself, but for the program: the weights are a row of their own, and no row is the library's."""
    trace, truth = recorded
    for mark, in_use in truth.items():
        rows = report(trace, "--at", f"mark:{mark}")["devices"][0]["gpu"]["rows"]
        assert not [row for row in rows if row["kind"] == "library"], rows
        found = {row["name"]: row["bytes"] for row in rows if row["kind"] == "category"}
        assert found.get("parameter", 0) == (0 if mark == "closed" else MODEL_BYTES)
        if in_use is not None:
            assert sum(found.values()) == in_use, mark


def test_lines(recorded):
    lines = report(recorded[0], "--by", "line", "--at", "mark:run0")["devices"][0]["at"]["lines"]
    assert {line["file"].rpartition("/")[2] for line in lines} == {"onnxruntime_script.py"}
