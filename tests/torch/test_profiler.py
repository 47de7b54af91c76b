"""PyTorch's own profiler is told the same of memory with and without the recorder."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, run  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "profiler_script.py"


def told(tmp_path, name, preload):
    out = tmp_path / f"{name}.json"
    run([PYTHON, SCRIPT, out], tmp_path / f"{name}.vrt", preload=preload)
    return json.loads(out.read_text())


def test_same_events(tmp_path):
    plain, traced = told(tmp_path, "plain", False), told(tmp_path, "traced", True)
    assert len(plain) > 100 and any(values["Bytes"] < 0 for _, values in plain)
    assert traced == plain
