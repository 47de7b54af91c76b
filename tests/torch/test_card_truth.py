"""Every byte of the card of a training: PyTorch's counters and the stand-in driver's books, to the byte."""
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, ENVIRONMENT, PROGRAM, PYTHON, RUN, run  # noqa: E402

pytestmark = pytest.mark.skipif(not RUN, reason="the stand-in driver's books are compared")
SCRIPT = pathlib.Path(__file__).resolve().parent / "card_script.py"


def card(trace, *options, **settings):
    told = subprocess.run([PROGRAM, "report", "--json", *options, trace], env={**ENVIRONMENT, **settings}, check=True,
                          capture_output=True, text=True).stdout
    (device,) = json.loads(told)["devices"]
    return device["gpu"], device["last_gpu"]


def by_kind(table):
    assert sum(row["bytes"] for row in table["rows"]) == table["device_bytes"]
    return {kind: sum(row["bytes"] for row in table["rows"] if row["kind"] == kind)
            for kind in {row["kind"] for row in table["rows"]}}


def test_every_byte_of_the_card_while_training(tmp_path):
    trace, out = tmp_path / "a.vrt", tmp_path / "truth.json"
    run([PYTHON, SCRIPT, out, 40], trace=trace, VRAMTRACE_STANDIN_MODULE="3MiB")
    truth = json.loads(out.read_text())
    peak, last = card(trace)
    assert last["source"] == "nvml" and last["steady"] and last["processes_known"] and last["moved_bytes"] == 0
    assert last["device_bytes"] == truth["used"] == truth["device"]
    for table, blocks in ((peak, truth["peak"]), (last, truth["allocated"])):
        found = by_kind(table)
        assert found["category"] == blocks and found["context"] == truth["context"] and found["unexplained"] == 0
    assert found == {"category": truth["allocated"], "cached": truth["reserved"] - truth["allocated"],
                     "context": truth["context"], "modules": truth["modules"], "unexplained": 0}
    # a trace that is read in part has the same tables
    chains = tmp_path / "chains.vrt"
    subprocess.run([BUILD / "tests/unit/rechain", trace, chains, "1000"], check=True)
    assert card(chains, VRAMTRACE_BUDGET_EVENTS="1000") == card(trace)
