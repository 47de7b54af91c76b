"""What the report tells of programs that only run models: examples/generate.py and examples/server.py, against what they know
of themselves, and what fits a card that is filled."""
import json
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import helpers  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
LAYERS, WIDTH, BYTES = 6, 512, 4


def traced(tmp_path, script, *arguments, check=True, **settings):
    result = helpers.run([helpers.PYTHON, EXAMPLES / script, *arguments], tmp_path / "x.vrt", check=check, **settings)
    return result, helpers.report(tmp_path / "x.vrt")["devices"][0]


def test_growth_and_requests(tmp_path):
    result, device = traced(tmp_path, "generate.py", "--batch", "4", "--tokens", "48")
    inference = device["inference"]
    assert inference["forward_passes"] == inference["steps"]["count"] == 48 and inference["threads"] == 1
    assert inference["requests"] is None  # main() is called once: nothing tells what a request is
    told = float(re.search(r"holds ([\d.]+) MiB", result.stdout).group(1)) * 2**20
    assert inference["kv_cache_bytes"] == pytest.approx(told, rel=0.02)
    assert inference["kv_cache_bytes_per_call"] == pytest.approx(2 * LAYERS * WIDTH * BYTES * 4, rel=0.02)


def test_threads(tmp_path):
    _, device = traced(tmp_path, "server.py")
    inference = device["inference"]
    assert inference["forward_passes"] == 60 and 2 <= inference["threads"] <= 4 and 1 <= inference["concurrent"] <= 4
    assert device["inference"]["kv_cache_bytes"] == 0
    leak, = device["leaks"]
    assert leak["bytes_per_step"] == 64 * 1024 * 4 and "server.py" in json.dumps(leak["lines"])


# What fills the card, how much of it is seen before, and what is told of what still fits.
FITS = {"cat": (40, "calls_that_fit"), "dynamic": (40, "calls_that_fit"), "static": (1, "caches_that_fit")}
CARD_BYTES = 492 << 20


@pytest.mark.skipif(not helpers.RUN, reason="fills the card: only over the stand-in, whose size can be set")
def test_what_fits(tmp_path):
    """What is told after the first few calls, against a run that goes on until the card is full."""
    folder = tmp_path
    jobs = [f"{kind}={seen}" for kind, (seen, _) in FITS.items()]
    helpers.run([helpers.PYTHON, EXAMPLES.parent / "tests/torch/fits_script.py", folder, *jobs], folder / "%p.vrt", timeout=200,
                VRAMTRACE_INSPECT="0", VRAMTRACE_STANDIN_MEMORY=str(CARD_BYTES))
    for kind, (seen, field) in FITS.items():
        full = json.loads((folder / f"{kind}-full.log").read_text().splitlines()[-1])
        assert full["refused"] and full["count"] > 3 * seen
        inference = helpers.report(folder / f"{kind}.vrt")["devices"][0]["inference"]
        assert inference["fit"] == "simulated"
        assert seen + inference[field] == pytest.approx(full["count"], rel=0.02), (kind, inference)


@pytest.mark.parametrize("inspect", ["1", "0"], ids=["inspections", "no inspections"])
def test_bytes_of_caches(tmp_path, inspect):
    """At every mark, to the byte: the blocks in which the cache object's own tensors lie."""
    kinds = ["dynamic", "static", "sliding", "quantized", "cat", "paged"]
    script = EXAMPLES.parent / "tests/torch/caches_script.py"
    helpers.run([helpers.PYTHON, script, tmp_path, *kinds], tmp_path / "%p.vrt", timeout=200, VRAMTRACE_INSPECT=inspect)
    for kind in kinds:
        told = [json.loads(line) for line in (tmp_path / f"{kind}.log").read_text().splitlines()]
        assert len(told) == 3 and told[-1]["bytes"] > 0
        for mark in told:
            at = helpers.report(tmp_path / f"{kind}.vrt", "--at", f"mark:{mark['mark']}")["devices"][0]["at"]
            # nothing about a list of equal blocks shows that it is a cache: no name, no class, no growth
            assert at["categories"]["other" if kind == "paged" else "kv_cache"] == mark["bytes"], (kind, mark)
    if inspect == "1":  # shapes are known
        inference = helpers.report(tmp_path / "dynamic.vrt")["devices"][0]["inference"]
        assert inference["sequences"] == 4 and inference["kv_cache_bytes_per_token"] == 2 * 3 * 256 * 4
