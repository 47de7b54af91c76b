"""Ray and DeepSpeed, really launched on two devices: each worker's trace against PyTorch's own counters, to the byte.

`tests/setup.sh setup_job_launchers` brings them; without them this is skipped.
"""
import json
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PROGRAM, PYTHON, RUN, run, vramtrace  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("VRAMTRACE_CACHE", pathlib.Path.home() / ".cache" / "vramtrace"))
PACKAGES = next(CACHE.glob("venv-launchers/lib/python3.*/site-packages"), None)
pytestmark = pytest.mark.skipif(not RUN or not PACKAGES, reason="without tests/setup.sh setup_job_launchers, or on a real GPU")


def launch(folder, *command):
    run([PROGRAM, "run", "--quiet", "-o", folder, PYTHON, *command], preload=False, PYTHONPATH=str(PACKAGES),
        VRAMTRACE_STANDIN_DEVICES="2", VRAMTRACE_STANDIN_SHARED=str(folder / "shared"), OMP_NUM_THREADS="1",
        RAY_USAGE_STATS_ENABLED="0")
    return json.loads(vramtrace("report", "--json", folder).stdout)


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    """The merged report, and what each worker counted, by pid."""
    folder = tmp_path_factory.mktemp("ray")
    told = launch(folder, HERE / "ray_script.py", folder)
    return told, {truth["pid"]: truth for truth in (json.loads(path.read_text()) for path in folder.glob("*.json"))}, folder


def test_each_worker_to_the_byte(ray):
    """Ray's own processes use no GPU and have no trace."""
    told, counted, _ = ray
    assert sorted(process["pid"] for process in told["processes"]) == sorted(counted) and len(counted) == 10 and not told["unread"]
    for process in told["processes"]:
        truth = counted[process["pid"]]
        (device,) = [device for device in process["devices"] if device["index"] == truth["device"]]
        assert device["peak"]["block_bytes"] == truth["allocated_peak"] and process["dropped"] == 0
        assert device["reserved_peak_bytes"] == truth["reserved_peak"]
        if truth["kind"] == "actor":  # ended by ray.kill, SIGTERM, SIGKILL, and in order, with all that it held
            assert device["end"]["segment_bytes"] == truth["reserved"]
        if truth["kind"] == "actor" and truth["number"] in (0, 2):
            assert device["end"]["block_bytes"] == truth["allocated"] and not process["complete"]


def test_runs(ray):
    """Tasks and actors have no ranks, trainer's workers learn theirs long after they began."""
    told, counted, folder = ray
    assert len(told["runs"]) == 3
    kinds = {}
    for number, run_told in enumerate(told["runs"]):
        members = [process for process in told["processes"] if process["run"] == number]
        (kind,) = {counted[process["pid"]]["kind"] for process in members}
        kinds[kind] = run_told
        assert run_told["launcher"] == "Ray" and run_told["name"] is None and len(members) == (2 if kind == "task" else 4)
        for process in members:
            assert process["rank"] == (counted[process["pid"]]["number"] if kind == "rank" else -1)
    assert kinds["rank"]["world_size"] == 4 and kinds["rank"]["missing_ranks"] == [] and kinds["rank"]["layout"] == "data_parallel"
    text = " ".join(vramtrace("report", "--full", folder).stdout.split())
    assert "Ray: 4 ranks." in text and "Ray: 4 processes (process " in text and "Ray: 2 processes (process " in text


def test_cards(ray):
    """Ray says which card a worker has when that runs already."""
    told, counted, _ = ray
    assert [card["number"] for card in told["gpus"]] == [0, 1] and all(card["known_by_uuid"] for card in told["gpus"])
    for process in told["processes"]:
        truth = counted[process["pid"]]
        for device in process["devices"]:
            assert told["gpus"][device["gpu"]]["number"] == int(truth["visible"].split(",")[device["index"]])


def test_titles(ray):
    """Ray writes a title over a worker's arguments, whose rest stays empty."""
    told, _, folder = ray
    for process in told["processes"]:
        assert process["command"].startswith("ray::") and not process["command"].endswith(" ")


def test_deepspeed(tmp_path):
    """`deepspeed --no_python vramtrace run python train.py`: --no_local_rank, or it puts its own option before the command."""
    run([PYTHON, "-m", "deepspeed.launcher.runner", "--num_gpus", 2, "--no_python", "--no_local_rank",
         PROGRAM, "run", "--quiet", "-o", tmp_path, PYTHON, HERE / "ranks_script.py", "ddp", tmp_path], preload=False,
        PYTHONPATH=str(PACKAGES), VRAMTRACE_STANDIN_DEVICES="2", OMP_NUM_THREADS="1", VRAMTRACE_STANDIN_SHARED=str(tmp_path / "shared"))
    told = json.loads(vramtrace("report", "--json", tmp_path).stdout)
    (run_told,) = told["runs"]
    assert (run_told["launcher"], run_told["world_size"], run_told["missing_ranks"]) == ("DeepSpeed", 2, [])
    for rank, process in enumerate(told["processes"]):
        truth, (device,) = json.loads((tmp_path / f"rank{rank}.json").read_text()), process["devices"]
        assert (process["rank"], process["pid"], process["complete"]) == (rank, truth["pid"], True)
        assert (device["peak"]["block_bytes"], device["reserved_peak_bytes"]) == (truth["allocated_peak"], truth["reserved_peak"])
