"""Identities of an optimizer: silent where the labels are right; else said, and none of those labels stays strong."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import helpers  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "identities_script.py"
STATES = 2 * 4 * (1024 * 512 + 512 + 512 * 64 + 128)  # 64 numbers take a whole block of 512 bytes
LARGE = 4 * 1024 * 512
# Takes both states of the largest parameter for something else.
RULES = """
rule mine
    activation strong
    python */torch/optim/adam*.py:*_init_group
    bytes >= 1MiB
    life outlives-step
"""


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    for kind in ("whole", "moved"):
        helpers.run([helpers.PYTHON, SCRIPT, kind], folder / f"{kind}.vrt", VRAMTRACE_INSPECT="0")
    (folder / "mine.rules").write_text(RULES)
    return folder


def identities(told):
    return {identity["kind"]: identity for identity in told["identities"]}


def text(*arguments):
    return " ".join(helpers.vramtrace("report", "--full", *arguments).stdout.split())


def test_what_is_right_is_not_mentioned(traces):
    told = identities(helpers.report(traces / "whole.vrt"))
    assert {kind: identity["result"] for kind, identity in told.items()} == {"states": "holds", "gradients": "holds"}
    assert told["states"]["states"] == 2 and told["states"]["found_bytes"] == told["states"]["expected_bytes"] == STATES
    assert "Identity:" not in text(traces / "whole.vrt")


def test_a_wrong_rule_is_overruled(traces):
    told = helpers.report(traces / "whole.vrt", "--rules", traces / "mine.rules")
    states = identities(told)["states"]
    assert (states["result"], states["blocks"]) == ("restored", 2)
    assert (states["expected_bytes"], states["found_bytes"]) == (STATES, STATES - 2 * LARGE)
    said = text(traces / "whole.vrt", "--rules", traces / "mine.rules")
    assert "keeps 2 states for each parameter; the rules found 0.1. 2 blocks got another category, with weak evidence." in said
    why = text(traces / "whole.vrt", "--rules", traces / "mine.rules", "--explain", "optimizer_state")
    assert "optimizer, weak evidence, 2 blocks by rule identity, frameworks.def:" in why


def test_nothing_is_strong_beside_a_broken_one(traces):
    """A state that is not there: its other one may be no state either."""
    told = helpers.report(traces / "moved.vrt")
    states = identities(told)["states"]
    assert states["result"] == "broken" and states["found_bytes"] < states["expected_bytes"] == STATES
    said = text(traces / "moved.vrt")
    assert "Identity: Adam keeps 2 states for each parameter; the rules found 1." in said
    assert "What it is about has weak evidence at most." in said and "expected)" not in said
    why = text(traces / "moved.vrt", "--explain", "optimizer_state")
    assert "optimizer, weak evidence, 7 blocks by rule optimizer-state" in why and "strong evidence" not in why
