"""The scripts for a GPU, rehearsed over the stand-in with the file that is carried: some parts pass, one cannot run and says so,
one that fails and one that hangs stop no other."""
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from helpers import BUILD, PYTHON, RUN  # noqa: E402

pytestmark = pytest.mark.skipif(not RUN, reason="on a GPU: tests/gpu/run.sh itself")
PASS, NEED_A_GPU = ("runtime", "sharing", "fraction", "own-pool"), "local-memory"


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    environment = {**os.environ, "VRAMTRACE_BUILD": str(BUILD)}
    subprocess.run([HERE / "pack.sh", folder / "prebuilt.tar.gz"], env=environment, check=True, capture_output=True)
    # The stand-in is in the build folder, which a prebuilt file takes the place of.
    run = f"{RUN[0]} -b {BUILD}"
    done = subprocess.run([HERE / "run.sh", "--prebuilt", folder / "prebuilt.tar.gz", "--out", folder / "out", "--patience", "10",
                           "--minutes", "30", *(f"--part={name}" for name in (*PASS, NEED_A_GPU))],
                          env={**environment, "VRAMTRACE_RUN": run, "VRAMTRACE_PYTHON": PYTHON}, text=True, capture_output=True)
    return done, folder / "out"


def test_parts(rehearsal):
    done, out = rehearsal
    told = json.loads((out / "gpu-results.json").read_text())
    parts = {part["name"]: part for part in told["parts"]}
    assert [parts[name]["state"] for name in PASS] == ["passed"] * len(PASS), done.stdout + json.dumps(parts)
    assert (parts[NEED_A_GPU]["state"], parts[NEED_A_GPU]["reason"]) == ("not run", "needs a GPU")
    assert done.returncode == 0
    for name in PASS:
        judged = [row for row in parts[name]["rows"] if row["verdict"] != "told"]
        assert len(judged) > 1 and all(row["verdict"] in ("equal", "yes", "kept") or row["verdict"].startswith("within") for row in judged)


def test_what_comes_back(rehearsal):
    _, out = rehearsal
    files = {path.name: path.stat().st_size for path in out.iterdir()}
    assert {"gpu-results.md", "gpu-results.json", "info.txt", "logs.tar.gz", "traces-1.tar.gz"} <= set(files)
    assert len(files) <= 8 and max(files.values()) < 16 << 20
    page = (out / "gpu-results.md").read_text()
    assert "not run: needs a GPU" in page and "| which driver function each ends in |" in page
    assert "Simulated GPU" in page and "cudaMalloc" in (out / "gpu-results.json").read_text()


PARTS = """
import sys, time
sys.path[:0] = [{gpu!r}, {tests!r}]
import parts, run
from figures import NotRun

def right(figures, folder): figures.equal("one", "itself", 1, 1)
def wrong(figures, folder): figures.equal("one", "two", 2, 1)
def broken(figures, folder): figures.told("before it broke", 7); raise ValueError("it broke")
def hanging(figures, folder): figures.told("before it hung", 7); time.sleep(600)
def cannot(figures, folder): raise NotRun("no such thing here")

made = [wrong, broken, hanging, cannot, right]
class Made(parts.Part):
    def load(self): return globals()[self.name]
run.PARTS = [Made(one.__name__, one.__name__, ("", ""), 3) for one in made]
run.__file__ = __file__
sys.exit(run.main())
"""


def test_a_part_that_fails_or_hangs_stops_no_other(tmp_path):
    script = tmp_path / "run_made.py"
    script.write_text(PARTS.format(gpu=str(HERE), tests=str(HERE.parent)))
    done = subprocess.run([PYTHON, script, tmp_path / "out", "--patience", "5"], text=True, capture_output=True)
    parts = {part["name"]: part for part in json.loads((tmp_path / "out/gpu-results.json").read_text())["parts"]}
    assert {name: part["state"] for name, part in parts.items()} == {
        "wrong": "failed", "broken": "failed", "hanging": "failed", "cannot": "not run", "right": "passed"}, done.stdout + done.stderr
    assert parts["broken"]["reason"] == "ValueError: it broke" and parts["hanging"]["reason"] == "no end within 15 s"
    assert [parts[name]["rows"][0]["ours"] for name in ("broken", "hanging")] == [7, 7]
    assert done.returncode == 1
    assert not subprocess.run(["pgrep", "-f", f"{script} .*--in-process"], capture_output=True).stdout  # nothing is left running
    page = (tmp_path / "out/gpu-results.md").read_text()
    assert "**differs**" in page and "it broke" in page and "no such thing here" in page


def test_a_run_that_is_ended_writes_what_it_has(tmp_path):
    script = tmp_path / "run_made.py"
    script.write_text(PARTS.format(gpu=str(HERE), tests=str(HERE.parent)))
    run = subprocess.Popen([PYTHON, script, tmp_path / "out", "--patience", "100", "--part", "wrong", "--part", "hanging",
                            "--part", "right"],
                           env={**os.environ, "TMPDIR": str(tmp_path)}, text=True, stdout=subprocess.PIPE)
    assert any(line.startswith("wrong") for line in run.stdout)
    while not list(tmp_path.glob("vramtrace-gpu-*/hanging/figures.rows")):
        time.sleep(0.1)
    run.terminate()
    rest = run.communicate(timeout=120)[0]
    parts = {part["name"]: part["state"] for part in json.loads((tmp_path / "out/gpu-results.json").read_text())["parts"]}
    assert parts == {"wrong": "failed", "hanging": "failed", "right": "not run"}, rest
    assert (tmp_path / "out/logs.tar.gz").exists() and run.returncode == 1
