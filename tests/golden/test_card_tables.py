"""The table `cards` of exports: SQLite, and DuckDB of CSV and Parquet, read what the stand-in driver's books say."""
import json
import os
import sqlite3
import subprocess
import sys

import pytest

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "readers"))
from card_process import MIB, PAUSE, finish, start  # noqa: E402
from exports import READERS  # noqa: E402
from harness import ANALYZER  # noqa: E402

COUNTED = "SELECT kind, pid, bytes FROM {cards} WHERE moment = '{moment}' AND device = {device} AND counted ORDER BY kind, pid"
SUMS = "SELECT device, moment, SUM(bytes), MAX(device_bytes), MAX(total_bytes) FROM {cards} WHERE counted GROUP BY 1, 2 ORDER BY 1, 2"
BESIDE = "SELECT moment, kind, bytes FROM {cards} WHERE NOT counted ORDER BY 1, 2"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(trace, books by device, those of another process on device 0)."""
    folder = tmp_path_factory.mktemp("cards")
    shared, end = {"VRAMTRACE_STANDIN_SHARED": folder / "shared", "VRAMTRACE_STANDIN_DEVICES": "2"}, folder / "end"
    other = start(None, "alloc:100", f"truth:{folder / 'other'}", f"wait:{end}", **shared)
    finish(start(folder / "a.vrt", f"wait:{folder / 'other'}", "alloc:40", "module", "host:5", f"limit:{20 << 20}", "device:1", "alloc:70",
                 PAUSE, "module", "alloc:2", PAUSE, f"truth:{folder / '1'}", "device:0", f"truth:{folder / '0'}", f"ready:{end}", **shared),
                 other)
    return folder / "a.vrt", [json.loads((folder / name).read_text()) for name in "01"], json.loads((folder / "other").read_text())


def export(trace, form, target):
    settings = {"VRAMTRACE_PYTHON": READERS} if READERS else {}
    subprocess.run([ANALYZER, "export", "--format", form, "-o", target, trace], check=True, env={**os.environ, **settings})


def check(answer, books, other):
    """`answer`: what the rows of a query are."""
    sums = {(device, moment): (whole, told, total) for device, moment, whole, told, total in answer(SUMS)}
    assert set(sums) == {(device, moment) for device in (0, 1) for moment in ("peak", "last")}
    for device, used in ((0, books[0]["own"] + other["own"]), (1, books[1]["own"])):
        whole, told, total = sums[device, "last"]
        assert whole == told == used and total == 16 << 30
        found = {(kind, pid): size for kind, pid, size in answer(COUNTED, device=device, moment="last")}
        book = books[device]
        expected = {("category", None): book["allocation"], ("context", None): book["context"], ("modules", None): book["module"],
                    ("settings", None): book["limit"], ("unexplained", None): 0,
                    ("process", other["pid"]): other["own"] if device == 0 else 0}
        assert found == {key: size for key, size in expected.items() if size or key[0] == "unexplained"}
    assert answer(BESIDE) == [("last", "host", 5 * MIB), ("last", "host", 5 * MIB), ("peak", "host", 5 * MIB), ("peak", "host", 5 * MIB)]


def test_sqlite(made, tmp_path):
    trace, books, other = made
    export(trace, "sqlite", tmp_path / "x.sqlite")
    database = sqlite3.connect(tmp_path / "x.sqlite")
    check(lambda query, **more: database.execute(query.format(cards="cards", **more)).fetchall(), books, other)


SCRIPT = """
import duckdb, json, sys
print(json.dumps(duckdb.sql(sys.argv[1]).fetchall()))
"""


@pytest.mark.skipif(not READERS, reason="VRAMTRACE_READERS is not set: no Python with DuckDB")
@pytest.mark.parametrize("form, source", [("csv", "read_csv('{}/cards.csv')"), ("parquet", "'{}/cards.parquet'")])
def test_duckdb(made, form, source, tmp_path):
    trace, books, other = made
    export(trace, form, tmp_path / "x")

    def answer(query, **more):
        text = subprocess.check_output([READERS, "-c", SCRIPT, query.format(cards=source.format(tmp_path / "x"), **more)], text=True)
        return [tuple(row) for row in json.loads(text)]
    check(answer, books, other)
