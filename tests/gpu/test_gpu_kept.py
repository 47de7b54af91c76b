"""Traces that an H100 made, with what PyTorch, the driver and NVML said there (docs/results/gpu.md): the judges of that run, again."""
import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "golden")]
import figures  # noqa: E402
from helpers import report  # noqa: E402
from judges import shared, work  # noqa: E402

JUDGES = {
    "training": (shared.counters, shared.card),
    "collectives": (shared.counters, shared.card, work.library("NCCL")),
    "graph": (shared.counters, shared.card, work.graph_pool),
    "full-card": (work.refusal,),
}


def judged(tmp_path, name):
    """(its trace, its truth), after all judges."""
    trace, truth = HERE / "kept" / name / "run.vrt", json.loads((HERE / "kept" / name / "truth.json").read_text())
    seen = figures.Figures(tmp_path / "rows")
    shared.whole(seen, trace)
    for judge in JUDGES[name]:
        judge(seen, trace, truth)
    rows = figures.read_rows(tmp_path / "rows")
    assert len(rows) > 8 and not [row for row in rows if row["verdict"] in ("differs", "no", "too much")]
    return trace, truth


@pytest.mark.parametrize("name", JUDGES)
def test_judges(tmp_path, name):
    judged(tmp_path, name)


def test_every_byte_of_the_card(tmp_path):
    """NVML's own sums: this process's rows, and what belongs to no process. cuMemAlloc takes whole 2 MiB."""
    trace, truth = judged(tmp_path, "training")
    table, point = report(trace, "--at", "mark:end")["devices"][0]["gpu"], truth["points"][-1]
    rows = {row["kind"]: 0 for row in table["rows"]}
    for row in table["rows"]:
        rows[row["kind"]] += row["bytes"]
    own = point["nvml"]["processes"][str(truth["pid"])]
    assert table["device_bytes"] == point["used"] == point["nvml"]["used"]
    assert rows["unlisted"] == point["nvml"]["used"] - own
    assert sum(rows.values()) - rows["unlisted"] == own and 0 <= rows["unexplained"] < 2 << 20
    assert rows["streams"] == 8 * (2 << 20)
