"""A program that says itself what a step is, against how often it says so."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, ROOT, info, run  # noqa: E402

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
