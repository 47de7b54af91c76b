"""Private pools of CUDA graphs: their bytes equal those of PyTorch's own snapshot, and what emptying the cache returns
is what the report says."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, report, run  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph_pools")
    run([PYTHON, HERE / "graph_pools.py", folder / "truth.json"], folder / "trace.vrt")
    return folder / "trace.vrt", json.loads((folder / "truth.json").read_text())


def pools_at(trace, mark):
    return report(trace, "--at", f"mark:{mark}")["devices"][0]["graph_pools"]


@pytest.mark.parametrize("mark", ["served", "given_up", "emptied"])
def test_bytes_are_those_of_the_snapshot(recorded, mark):
    trace, truth = recorded
    told, true = ([{name: pool[name] for name in ("bytes", "block_bytes")} for pool in pools]
                  for pools in (pools_at(trace, mark), truth[mark]["pools"]))
    assert sorted(told, key=lambda pool: (-pool["bytes"], pool["block_bytes"])) == true
    assert all(pool["free_bytes"] == pool["bytes"] - pool["block_bytes"] for pool in pools_at(trace, mark))


def test_graphs_and_launches(recorded):
    (pool,) = pools_at(recorded[0], "served")
    assert (pool["graphs"], pool["launches"], pool["abandoned"]) == (3, 4, False)
    assert pool["line"]["function"] == "Served.capture"


def test_emptying_the_cache_returns_what_no_graph_uses(recorded):
    trace, truth = recorded
    kept, = [pool for pool in pools_at(trace, "given_up") if not pool["abandoned"]]
    abandoned, = [pool for pool in pools_at(trace, "given_up") if pool["abandoned"]]
    assert (abandoned["graphs"], abandoned["launches"]) == (0, 5)
    assert kept["graphs"] == 3
    # A workspace of cuBLAS stays there, and with it the segment that it is in.
    held, = (pool["held_bytes"] for pool in truth["given_up"]["pools"] if pool["bytes"] == abandoned["bytes"])
    rest = {**abandoned, "bytes": held, "free_bytes": held - abandoned["block_bytes"]}
    assert pools_at(trace, "emptied") == [kept, *([rest] if held else [])]
    assert truth["given_up"]["reserved"] - truth["emptied"]["reserved"] >= abandoned["bytes"] - held
