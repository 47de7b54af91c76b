"""A pause costs no byte: what PyTorch counts, with stacks from the third step on or from none."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, ROOT, info, report, run  # noqa: E402

SCRIPT = """
import sys, torch, vramtrace
sys.path.insert(0, "%s")
import models
workload = models.make("mlp_adam")
for step in range(6):
    batch, target = workload.batch()
    workload.loss(workload.model(batch), target).backward()
    workload.optimizer.step()
    vramtrace.mark(f"after {step}")
    print(torch.cuda.memory_allocated())
    workload.optimizer.zero_grad()
print(torch.cuda.max_memory_allocated())
models.finish_backward()
""" % (ROOT / "tests/torch")


@pytest.mark.parametrize("start, named", [("now", True), ("step:3", True), ("manual", False)])
def test_bytes(tmp_path, start, named):
    (tmp_path / "train.py").write_text(SCRIPT)
    trace = tmp_path / "x.vrt"
    done = run([PYTHON, tmp_path / "train.py"], trace, PYTHONPATH=str(ROOT / "python"), VRAMTRACE_START=start)
    *counted, peak = map(int, done.stdout.split())
    for step, allocated in enumerate(counted):
        assert report(trace, "--at", f"mark:after {step}")["devices"][0]["at"]["block_bytes"] == allocated
    device = report(trace)["devices"][0]
    assert device["peak"]["block_bytes"] == peak
    told = info(trace)
    assert told["steps"] == 6 and told["disagreements"]["total_mismatches"] == 0
    assert (told["trace"]["paused_events"] > 0) == (start != "now")
    # Parameters are as old as the process. An inspection after the pause names them; without one nothing claims to know.
    parameters = [owner for owner in device["peak"]["owners"] if owner["category"] == "parameter"]
    assert {owner["evidence"] for owner in parameters} == ({"exact"} if named else {"weak"})
