"""Gathered copies of sharded parameters: their bytes and names, against the tensors that FSDP itself has."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, report, run, vramtrace  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "gathered_script.py"


@pytest.mark.parametrize("kind", ["flat", "tensors"])
def test_gathered_copies_are_counted_apart(kind, tmp_path):
    trace, out = tmp_path / "run.vrt", tmp_path / "truth.json"
    run([PYTHON, SCRIPT, kind, out], trace)
    truth = json.loads(out.read_text())
    view = report(trace, "--at", "mark:gathered")["devices"][0]["at"]
    assert truth["bytes"] > 0
    assert view["gathered_bytes"] == truth["bytes"]
    gathered = {owner["name"] for owner in view["owners"] if owner["name"].endswith(" (gathered)")}
    assert len(gathered) == len(truth["names"])
    for name in truth["names"]:
        plain = name.replace("_fsdp_wrapped_module.", "")
        assert any(plain in owner for owner in gathered), (plain, gathered)
    assert "gathered copies" in " ".join(vramtrace("report", "--full", "--at", "mark:gathered", trace).stdout.split())
    after = report(trace, "--at", "mark:sharded")["devices"][0]["at"]
    assert after["gathered_bytes"] == 0
