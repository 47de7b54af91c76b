"""Inspections of live objects are not noticed: inspected.py prints the same with it and without vramtrace."""
import concurrent.futures
import os
import pathlib
import re
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, events, info, run  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parent / "inspected.py"
PROGRAMS = ["results", "objects", "lifetimes", "user_code", "subclasses", "modes", "tracers", "strict", "threads",
            "gradients_freed", "compiled", "forked", "broken"]
UNLOOKED_AT = {"threads"}  # may go by without an inspection: the main thread waits in C


def timeless(text):
    """Without the times and process ids of PyTorch's own log lines."""
    return re.sub(r"^[A-Z]\d{4} [\d:.]+ \d+ ", "", text, flags=re.MULTILINE)


def looks(trace):
    return sum(event["kind"] == "look" for event in events(trace, stacks=False))


@pytest.mark.parametrize("program", PROGRAMS)
def test_unnoticed(program, tmp_path):
    command = [PYTHON, SCRIPT, program]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        alone = pool.submit(run, command, preload=False)
        looked = pool.submit(run, command, tmp_path / "looked.vrt", VRAMTRACE_QUIET="1")
    assert alone.result().stdout
    assert looked.result().stdout == alone.result().stdout
    assert timeless(looked.result().stderr) == timeless(alone.result().stderr)
    if program not in UNLOOKED_AT:
        assert looks(tmp_path / "looked.vrt") > 0


def test_not_looking(tmp_path):
    command = [PYTHON, SCRIPT, "results"]
    unlooked = run(command, tmp_path / "unlooked.vrt", VRAMTRACE_QUIET="1", VRAMTRACE_INSPECT="0")
    assert unlooked.stdout == run(command, preload=False).stdout
    assert looks(tmp_path / "unlooked.vrt") == 0


def test_cost(tmp_path):
    """Of a run over 10 s all inspections take 1 % of CPU time at most, and where the machine has a CPU for them no more of waiting."""
    began = time.monotonic()
    run([PYTHON, SCRIPT, "long"], tmp_path / "long.vrt")
    life_ns = (time.monotonic() - began) * 1e9
    each = info(tmp_path / "long.vrt")["inspections"]["each"]
    assert all(0 < look["processor_ns"] <= look["duration_ns"] for look in each), each
    assert sum(look["processor_ns"] for look in each) <= life_ns / 100, (life_ns, each)
    overloaded = os.getloadavg()[0] > os.cpu_count()
    assert overloaded or sum(look["duration_ns"] for look in each) <= life_ns / 100, (life_ns, each)
    assert any(look.get("census_ended") and look["holders"] > 1 for look in each), each


def test_large_containers(tmp_path):
    """One container of a million objects does not keep the program waiting for longer than many small ones."""
    said = run([PYTHON, SCRIPT, "large"], tmp_path / "large.vrt").stdout
    each = info(tmp_path / "large.vrt")["inspections"]["each"]
    assert float(said.split()[0]) < 0.5, (said, each)
    assert any("census_ended" in look for look in each), each


SERVER = """
import time, torch
time.sleep(1)  # a share of its life pays for inspections
def main():
    model, answers = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda(), []
    with torch.no_grad():
        for _ in range(64):
            answers.append(model(torch.randn(32, 256, device="cuda")))
            time.sleep(0.005)  # requests come one after the other, as they do
main()
"""


def test_short_inference(tmp_path):
    """What calls without backward keep is seen while they last, a fraction of a second; at exit it is gone."""
    run([PYTHON, "-c", SERVER], tmp_path / "server.vrt")
    each = info(tmp_path / "server.vrt")["inspections"]["each"]
    assert any(look["reasons"] == "peak" and look.get("holders", 0) > 2 for look in each), each


ACCUMULATED = """
import time, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(1200)])
    def forward(self, x):
        return sum(layer(x).sum() for layer in self.layers)
def main(accumulation):
    model = Net().cuda()
    with torch.no_grad():
        model(torch.randn(4, 8, device="cuda"))
    time.sleep(1)  # longer than until the first timed inspection
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for i in range(2 * accumulation + 2):
        model(torch.randn(4, 8, device="cuda")).backward()
        if i % accumulation == accumulation - 1:
            optimizer.step()
main(13)
"""


def test_after_the_optimizer(tmp_path):
    """An optimizer's state is seen however late its first step is, and where inspections are too expensive but for those promised."""
    run([PYTHON, "-c", ACCUMULATED], tmp_path / "accumulated.vrt")
    each = info(tmp_path / "accumulated.vrt")["inspections"]["each"]
    assert each[-1]["tensors"] >= 3 * 2400, each  # parameters, gradients, momentum


def test_failures_end(tmp_path):
    """An inspection that fails says so in the trace, and after three nobody looks any more."""
    run([PYTHON, SCRIPT, "broken"], tmp_path / "broken.vrt")
    told = info(tmp_path / "broken.vrt")["inspections"]
    failed = [bool(each["failure"]) for each in told["each"]]  # those before it broke torch did not
    assert failed == sorted(failed) and looks(tmp_path / "broken.vrt") == len(failed)
    assert told["failed"] == 3 and "'NoneType' object is not callable" in told["failure"]
