"""The analyzer's work grows with the trace, not with its square: the basic blocks that it runs are counted, since time
would say more about the machine."""
import concurrent.futures
import math
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "tests")]
import growth  # noqa: E402
from helpers import ENVIRONMENT  # noqa: E402

COUNTED = pathlib.Path(os.environ.get("VRAMTRACE_COUNTED", growth.BUILD / "tests/bench/vramtrace_counted"))
SIZES = 8000, 32000
# Sorting takes a little more than linear work; 1.07 by itself at these sizes.
MOST = 1.15


def work(name, trace):
    told = trace.with_suffix(f".{name.replace(' ', '')}")
    result = subprocess.run(growth.arguments_of(name, trace, COUNTED), stdout=subprocess.DEVNULL,
                            env={**ENVIRONMENT, "VRAMTRACE_WORK": str(told)}, timeout=300)
    assert result.returncode in (0, 1)
    return int(told.read_text())


@pytest.mark.parametrize("shape", growth.SHAPES)
def test_work_grows_with_the_trace(shape, tmp_path):
    traces = {}
    for size in SIZES:
        trace = tmp_path / f"{size}.vrt"
        traces[growth.grow(shape, size, trace)] = trace
    (small, before), (large, after) = sorted(traces.items())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        counts = {name: (pool.submit(work, name, before), pool.submit(work, name, after)) for name in growth.COMMANDS}
    exponents = {name: math.log(more.result() / less.result()) / math.log(large / small)
                 for name, (less, more) in counts.items()}
    assert max(exponents.values()) < MOST, {name: round(exponent, 2) for name, exponent in exponents.items()}
