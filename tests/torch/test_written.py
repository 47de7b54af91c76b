"""Code that torch.compile writes: each block is shown at the script's line behind it, as the compiler's own map says."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, report, run  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    run([PYTHON, HERE / "written_script.py", folder / "truth.json"], folder / "trace.vrt")
    return folder / "trace.vrt", json.loads((folder / "truth.json").read_text())


@pytest.mark.parametrize("mark", ["forward#1", "backward#1", "forward#2", "backward#2"])
def test_lines(recorded, mark):
    trace, truth = recorded
    blocks = report(trace, "--at", f"mark:{mark}", "--by", "block")["devices"][0]["at"]["blocks"]
    told = {str(block["address"]): [block["file"], block["line"], block["function"]] for block in blocks}
    assert len(truth[mark]) >= 10
    assert {address: told[address] for address in truth[mark]} == truth[mark]


def test_tables_show_them(recorded):
    trace, truth = recorded
    lines = report(trace, "--at", "mark:backward#2")["devices"][0]["at"]["lines"]
    shown = {(line["file"], line["line"]) for line in lines}
    assert {tuple(where[:2]) for where in truth["backward#2"].values()} <= shown
    assert not [file for file, _ in shown if file and "inductor" in file]
