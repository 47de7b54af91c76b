"""Of long traces some chains are read, and digests of the others: what is alive at the moments that are shown is all there, and the
output says what is not."""
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "tests")]
import growth  # noqa: E402
from helpers import BUILD, ENVIRONMENT, LIBRARY, RUN  # noqa: E402

BUDGET, CHAIN = 20000, 2000  # events: of a short trace some are left out as of one of millions
WHOLE = 1 << 40
# What the manual says is of the moments looked at; and what tells that there are such.
OF_MOMENTS = {"timeline", "temporary_peak_bytes", "omitted"}


def run(*arguments, budget=BUDGET):
    result = subprocess.run([growth.VRAMTRACE, *arguments], env={**ENVIRONMENT, "VRAMTRACE_BUDGET_EVENTS": str(budget)},
                            capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def without_moments(item):
    if isinstance(item, dict):
        return {name: without_moments(value) for name, value in item.items() if name not in OF_MOMENTS}
    return [without_moments(value) for value in item] if isinstance(item, list) else item


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    made = {}

    def make(shape):
        if shape not in made:
            grown = tmp_path_factory.mktemp("thinning") / "grown.vrt"
            events, path = growth.grow(shape, 100000, grown), grown.with_name(f"{shape}.vrt")
            subprocess.run([BUILD / "tests/unit/rechain", grown, path, str(CHAIN)], check=True)
            made[shape] = events, path
        return made[shape]
    return make


@pytest.mark.parametrize("shape", ["evaluations", "gradients", "gradients_kept", "groups", "holders", "stacks", "views"])
def test_shown_moments_are_those_of_all_events(shape, traces):
    events, trace = traces(shape)
    for command in ("report", "leaks"):
        thinned = json.loads(run(command, "--json", trace))
        whole = json.loads(run(command, "--json", trace, budget=WHOLE))
        assert without_moments(thinned) == without_moments(whole)
        assert thinned["trace"]["events"] == whole["trace"]["events"] == events
        assert events * 0.05 < thinned["trace"]["omitted"] < events
        assert "omitted" not in whole["trace"]


def test_the_chart_shows_no_more_than_there_was(traces):
    trace = traces("evaluations")[1]
    thinned, whole = (json.loads(run("timeline", "--json", trace, budget=budget))["devices"][0]["timeline"] for budget in (BUDGET, WHOLE))
    own, full = thinned["driver_bytes"], whole["driver_bytes"]
    assert len(own) == len(full) and max(own) == max(full)
    assert all(one <= two for one, two in zip(own, full))


def test_the_text_says_what_is_missing(traces):
    events, trace = traces("evaluations")
    for command in ("report", "leaks", "timeline"):
        text = " ".join(run(command, trace).split())
        assert f" of {events:,} events were not read one by one" in text
        assert "one by one" not in run(command, trace, budget=events)


def test_a_moment_that_is_asked_for_is_complete(traces):
    trace = traces("evaluations")[1]
    shown, whole = (json.loads(run("report", "--json", "--at", "event:50001", trace, budget=budget)) for budget in (BUDGET, WHOLE))
    assert shown["devices"][0]["at"]["event"] == 50001 and shown["trace"]["omitted"] > 0
    assert without_moments(shown["devices"][0]["at"]) == without_moments(whole["devices"][0]["at"])


CHURN = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
kept = []
for count in 450000, 50000:
    for number in range(count):
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(512 + number % 7 * 512)) == 0
        if number % 1000 and cuda.cuMemFree_v2(address) == 0:
            continue
        kept.append(512 + number % 7 * 512)
    print(sum(kept), flush=True)
    sys.stdin.readline()
"""


def test_a_trace_that_is_still_written(tmp_path):
    """Chains that have ended have their digests: what stays is known then as it is at the end."""
    trace = tmp_path / "x.vrt"
    with subprocess.Popen([*RUN, "env", f"LD_PRELOAD={LIBRARY}", sys.executable, "-c", CHURN], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env={**ENVIRONMENT, "VRAMTRACE_OUT": str(trace), "VRAMTRACE_QUIET": "1"}) as process:
        for _ in range(2):
            kept = int(process.stdout.readline())
            shown = json.loads(run("report", "--json", "--at", "end", trace))
            leaks = run("leaks", "--json", trace)
            assert shown["trace"]["omitted"] > 100000
            assert shown["devices"][0]["at"]["driver_bytes"] - shown["devices"][0]["at"]["context_bytes"] == kept
            assert json.loads(leaks)["trace"]["events"] == shown["trace"]["events"]
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.returncode == 0
