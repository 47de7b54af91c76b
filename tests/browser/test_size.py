"""How large the page of a long training is."""
import pathlib
import sys

import pytest
from conftest import LONG

import helpers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import long  # noqa: E402

SIZES = [(400_000, 1.5e6), (10_000_000, 10e6)]


@pytest.mark.parametrize("events, most", SIZES if LONG else SIZES[:1])
def test_page_of_many_events(browser, tmp_path, events, most):
    page = tmp_path / "long.html"
    (trace,) = long.record("equal", [events], tmp_path).values()
    assert helpers.info(trace)["trace"]["events"] >= events * 0.9
    helpers.vramtrace("html", "-o", page, trace)
    assert page.stat().st_size <= most
    browser.open(page)
    shown = browser.moment()
    state = helpers.report(trace, "--at", f"event:{shown['event']}")["devices"][0]["at"]
    assert shown["bytes"]["from driver"] == state["driver_bytes"]
    assert shown["event"] == helpers.report(trace)["devices"][0]["peak"]["event"]
