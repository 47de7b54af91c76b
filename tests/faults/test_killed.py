"""SIGKILL in the middle of training: every trace reads, holds all that was committed, and says it is incomplete."""
import collections
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, info, report, run, vramtrace  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
KILLS = int(os.environ.get("VRAMTRACE_KILLS", "15"))


def test_killed_while_training(tmp_path):
    run([PYTHON, HERE / "killed_server.py", KILLS, 20261121, tmp_path / "report.json"], tmp_path / "%p.vrt",
        VRAMTRACE_QUIET="1", timeout=120 + 10 * KILLS)
    children = json.loads((tmp_path / "report.json").read_text())
    assert len(children) == KILLS
    numbers = collections.Counter()
    for child in children:
        again = numbers[child["pid"]]  # the kernel gives a number again, in a long run
        numbers[child["pid"]] += 1
        trace = tmp_path / (f"{child['pid']}.{again}.vrt" if again else f"{child['pid']}.vrt")
        seen = info(trace)["trace"]
        assert seen["complete"] is False
        assert seen["dropped"] == 0
        made = info(trace)["counts"]["kinds"]["alloc"]["framework"]
        # torch's own count, told by the child before it went on; what came after it may be there too
        assert made >= child["allocations"] > 0, trace
        assert report(trace)["devices"][0]["peak"]["block_bytes"] > 0
        text = vramtrace("report", "--full", trace).stdout
        assert "killed" in text.split("\n\n")[0]
        assert "incomplete" in vramtrace("info", trace).stdout
        vramtrace("info", "--verify", trace)
