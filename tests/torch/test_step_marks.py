"""A program that says itself what a step is, against how often it says so."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, ROOT, info, report, run, vramtrace  # noqa: E402

SCRIPT = """
import sys, torch, vramtrace
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(6):
    model(torch.randn(64, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if i % int(sys.argv[1]) == int(sys.argv[1]) - 1:
        vramtrace.step()
with torch.no_grad():
    model(torch.randn(64, 256, device="cuda")).sum().item()
"""


@pytest.mark.parametrize("every, steps", [(2, 3), (100, 6)])
def test_steps(tmp_path, every, steps):
    (tmp_path / "train.py").write_text(SCRIPT)
    run([PYTHON, tmp_path / "train.py", every], tmp_path / "x.vrt", PYTHONPATH=str(ROOT / "python"))
    assert info(tmp_path / "x.vrt")["steps"] == steps


LONG_END = """
import sys, torch, vramtrace
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(8):
    if "marks" in sys.argv: vramtrace.step()
    model(torch.randn(64, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
kept = []
with torch.no_grad():
    weight = model.weight.detach()
    for i in range(200):
        if "marks" in sys.argv: vramtrace.step()
        kept.append((torch.randn(64, 256, device="cuda") @ weight).relu())
"""

LONG_BEGIN = """
import sys, torch, vramtrace
words = []
for i in range(400):
    if "marks" in sys.argv: vramtrace.step()
    words.append(torch.randn(256, device="cuda").mul(2).add(1))
model = torch.nn.Linear(256, 256).cuda()
with torch.no_grad():
    for i in range(10):
        if "marks" in sys.argv: vramtrace.step()
        model(torch.stack(words[:64])).sum().item()
"""


@pytest.mark.parametrize("script, reason", [(LONG_END, "The last step has"), (LONG_BEGIN, "are in steps")], ids=["end", "begin"])
def test_no_leak_is_said_of_steps_only(tmp_path, script, reason):
    """Where most of the run lies outside of steps that compare there is no all-clear. Marks show what grows."""
    (tmp_path / "train.py").write_text(script)
    for marks in ("", "marks"):
        trace = tmp_path / f"x{marks}.vrt"
        run([PYTHON, tmp_path / "train.py", marks], trace, PYTHONPATH=str(ROOT / "python"))
        device = report(trace)["devices"][0]
        codes = [vramtrace("check", "--max-leak", "0", *allowed, trace, check=False).returncode for allowed in ((), ("--allow-unjudged",))]
        found = [leak for leak in device["leaks"] if leak["leak"]]
        if marks:
            assert device["leaks_judged"] and codes == ([1, 1] if found else [0, 0]), device["leaks_unjudged"]
            assert found or script is LONG_BEGIN  # there growth has ended when the last steps come
        else:
            assert not found and not device["leaks_judged"] and reason in device["leaks_unjudged"] and codes == [1, 0]
